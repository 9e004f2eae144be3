#include "agent/host/updates/publisher.h"

#include <algorithm>
#include <utility>

#include "agent/host/updates/mesh_report.h"
#include "common/base/log.h"
#include "wire/frame_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

Publisher::~Publisher() {
  for (const auto& [mesh, retry] : retries_) bus_.reactor().cancel(retry.timer);
}

void Publisher::flush() {
  for (Mesh* mesh : std::exchange(marked_, {})) {
    if (mesh->updates.take_resized()) tell_layout(*mesh);
    if (mesh->updates.take_owner_changed()) {
      tell_owner(*mesh);
    } else {
      flush_changes(*mesh);
    }
    if (bus_.is_up()) flush_output(*mesh);
  }
}

void Publisher::flush_changes(Mesh& mesh) {
  if (mesh.updates.is_empty()) return;
  const auto messages = make_changes(mesh.name, host_, mesh.updates.take());
  if (!bus_.is_up()) return;
  for (const auto& message : messages) tell(mesh, message, true);
}

void Publisher::tell(Mesh& mesh, const wire::StateChangedT& message, bool with_owner) {
  const MeshOwnership& ownership = mesh.ownership;
  if (with_owner && !ownership.is_gone() && !bus_.tell(Destination::to(ownership.owner()), message))
    retry_owner(mesh, false);
  for (const auto& [name, subscriber] : mesh.subscribers) {
    // An owner that subscribes is told as the owner.
    if (ownership.has_owner(subscriber)) continue;
    if (!bus_.tell(Destination::to(subscriber), message)) retry_subscriber(mesh, name);
  }
}

void Publisher::flush_output(Mesh& mesh) {
  // What came back is sent again a moment later, and what comes after it with it.
  const auto retry = retries_.find(&mesh);
  if (retry != retries_.end() && retry->second.timer != 0 && retry->second.output) return;
  while (mesh.output.is_relaying) {
    auto message = mesh.output.relay.next();
    if (!message) return;
    message->mesh = mesh.name;
    const auto owner = Destination::to(mesh.ownership.owner());
    if (!bus_.tell(owner, std::move(*message), wire::Lane::data)) return retry_owner(mesh, true);
  }
}

void Publisher::forget(Mesh& mesh) {
  marked_.erase(&mesh);
  const auto found = retries_.find(&mesh);
  if (found == retries_.end()) return;
  bus_.reactor().cancel(found->second.timer);
  retries_.erase(found);
}

bool Publisher::send_snapshot(const Mesh& mesh, const ProcId& to) {
  for (auto& message : make_snapshot(mesh, host_)) {
    message.snapshot = true;
    if (!bus_.tell(Destination::to(to), std::move(message))) return false;
  }
  return true;
}

void Publisher::tell_owner(Mesh& mesh) {
  flush_changes(mesh);
  if (!bus_.is_up()) return;  // on_up() tells everything to all
  wire::StateChangedT change;
  change.mesh = mesh.name;
  change.host = host_;
  change.ownership = make_ownership(mesh.ownership);
  tell(mesh, change, false);
  const MeshOwnership& ownership = mesh.ownership;
  if (!ownership.is_gone() && !send_snapshot(mesh, ownership.owner())) retry_owner(mesh, false);
}

void Publisher::tell_layout(Mesh& mesh) {
  flush_changes(mesh);
  if (!bus_.is_up()) return;  // on_up() tells everything to all
  wire::StateChangedT change;
  change.mesh = mesh.name;
  change.host = host_;
  change.layout = to_wire(mesh.spec.layout());
  tell(mesh, change, true);
}

void Publisher::send_exit_reports(const Mesh& mesh, const std::vector<const Proc*>& procs,
                                  const ProcId& to) {
  HostUpdate update;
  for (const Proc* proc : procs)
    update.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*proc->exit.report()));
  for (auto& message : make_changes(mesh.name, host_, std::move(update)))
    bus_.tell(Destination::to(to), std::move(message));
}

void Publisher::on_up(const ProcTable::Meshes& meshes) {
  for (const auto& [name, mesh] : meshes) {
    const MeshOwnership& ownership = mesh->ownership;
    if (!ownership.is_gone() && !send_snapshot(*mesh, ownership.owner())) retry_owner(*mesh, false);
    for (const auto& [text, subscriber] : mesh->subscribers) {
      if (!ownership.has_owner(subscriber) && !send_snapshot(*mesh, subscriber))
        retry_subscriber(*mesh, text);
    }
    mesh->output.relay.resend();
    mark(*mesh);
  }
}

void Publisher::on_owner_moved(Mesh& mesh) {
  forget(mesh);
  mesh.output.relay.resend();
  mark(mesh);
  wire::StateChangedT change;
  change.mesh = mesh.name;
  change.host = host_;
  change.ownership = make_ownership(mesh.ownership);
  if (bus_.is_up()) tell(mesh, change, false);
}

void Publisher::retry_owner(Mesh& mesh, bool was_output) {
  Retry& retry = arm_retry(mesh);
  (was_output ? retry.output : retry.state) = true;
}

void Publisher::retry_subscriber(Mesh& mesh, const std::string& name) {
  arm_retry(mesh).subscribers.insert(name);
}

Publisher::Retry& Publisher::arm_retry(Mesh& mesh) {
  Retry& retry = retries_[&mesh];
  if (retry.timer != 0) return retry;
  const bool is_new = bus_.reactor().now() - retry.last > 2 * kLastRetry;
  retry.delay = is_new ? kFirstRetry : std::min(2 * retry.delay, kLastRetry);
  retry.timer = bus_.reactor().after(retry.delay, [this, &mesh] { on_retry(mesh); });
  return retry;
}

void Publisher::on_retry(Mesh& mesh) {
  Retry& due = retries_.at(&mesh);
  due.timer = 0;
  due.last = bus_.reactor().now();
  const bool state = std::exchange(due.state, false);
  const bool output = std::exchange(due.output, false);
  for (const auto& name : std::exchange(due.subscribers, {})) {
    const auto subscriber = mesh.subscribers.find(name);
    if (subscriber != mesh.subscribers.end() && !send_snapshot(mesh, subscriber->second))
      retry_subscriber(mesh, name);
  }
  if (mesh.ownership.is_gone()) return;
  if (state && !send_snapshot(mesh, mesh.ownership.owner())) retry_owner(mesh, false);
  if (output) {
    mesh.output.relay.resend();
    mark(mesh);
  }
}

}  // namespace meshbus::host
