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
    flush_changes(*mesh);
    if (bus_.is_up()) flush_output(*mesh);
  }
}

void Publisher::flush_changes(Mesh& mesh) {
  if (mesh.changes.empty() && mesh.exit_reports.empty() && mesh.troubles.empty()) return;
  std::vector<wire::LaunchTimes> launch;
  for (const auto& change : mesh.changes) {
    // From Ready on the times do not change; neither do those of one who ended without ever being.
    const bool is_over =
        change.state() == wire::ProcState::ready || change.state() >= wire::ProcState::stopped;
    const auto found = is_over ? mesh.procs.find(change.rank()) : mesh.procs.end();
    if (found == mesh.procs.end() || std::exchange(found->second->launch_told, true)) continue;
    launch.push_back(found->second->launch);
  }
  const auto messages = make_changes(mesh.name, host_, std::exchange(mesh.changes, {}),
                                     std::exchange(mesh.exit_reports, {}), std::move(launch),
                                     std::exchange(mesh.troubles, {}));
  if (!bus_.is_up()) return;
  for (const auto& message : messages) {
    if (!mesh.owner_gone && !bus_.tell(Destination::to(mesh.spec.owner), message))
      retry_owner(mesh, false);
    for (const auto& [name, subscriber] : mesh.subscribers) {
      const bool is_owner =
          !mesh.owner_gone && subscriber == mesh.spec.owner;  // who has been told already
      if (!is_owner && !bus_.tell(Destination::to(subscriber), message))
        retry_subscriber(mesh, name);
    }
  }
}

void Publisher::flush_output(Mesh& mesh) {
  // What came back is sent again a moment later, and what comes after it with it.
  if (const auto retry = retries_.find(&mesh);
      retry != retries_.end() && retry->second.timer != 0 && retry->second.output)
    return;
  while (mesh.relaying) {
    auto message = mesh.relay.next();
    if (!message) return;
    message->mesh = mesh.name;
    if (bus_.tell(Destination::to(mesh.spec.owner), std::move(*message), wire::Lane::data))
      continue;
    return retry_owner(mesh, true);
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
  if (!bus_.is_up()) return;  // on_up() tells everybody everything
  wire::StateChangedT change;
  change.mesh = mesh.name;
  change.host = host_;
  change.ownership = make_ownership(mesh);
  for (const auto& [name, subscriber] : mesh.subscribers) {
    const bool is_owner = !mesh.owner_gone && subscriber == mesh.spec.owner;
    if (!is_owner && !bus_.tell(Destination::to(subscriber), change)) retry_subscriber(mesh, name);
  }
  if (!mesh.owner_gone && !send_snapshot(mesh, mesh.spec.owner)) retry_owner(mesh, false);
}

void Publisher::send_exit_reports(const Mesh& mesh, const std::vector<const Proc*>& procs,
                                  const ProcId& to) {
  std::vector<std::unique_ptr<wire::ExitReportT>> exit_reports;
  for (const Proc* proc : procs)
    exit_reports.push_back(std::make_unique<wire::ExitReportT>(*proc->exit_report));
  for (auto& message : make_changes(mesh.name, host_, {}, std::move(exit_reports)))
    bus_.tell(Destination::to(to), std::move(message));
}

void Publisher::on_up(const std::map<std::string, std::unique_ptr<Mesh>, std::less<>>& meshes) {
  for (const auto& [name, mesh] : meshes) {
    if (!mesh->owner_gone && !send_snapshot(*mesh, mesh->spec.owner)) retry_owner(*mesh, false);
    for (const auto& [text, subscriber] : mesh->subscribers) {
      const bool is_owner = !mesh->owner_gone && subscriber == mesh->spec.owner;
      if (!is_owner && !send_snapshot(*mesh, subscriber)) retry_subscriber(*mesh, text);
    }
    mesh->relay.resend();
    mark(*mesh);
  }
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
  const auto now = bus_.reactor().now();
  const bool is_new = now - retry.last > 2 * last_retry;
  retry.delay = is_new ? first_retry : std::min(2 * retry.delay, last_retry);
  retry.timer = bus_.reactor().after(retry.delay, [this, &mesh] {
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
    if (mesh.owner_gone) return;
    if (state && !send_snapshot(mesh, mesh.spec.owner)) retry_owner(mesh, false);
    if (output) {
      mesh.relay.resend();
      mark(mesh);
    }
  });
  return retry;
}

}  // namespace meshbus::host
