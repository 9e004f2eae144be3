#include "agent/host/publisher.h"

#include <algorithm>
#include <utility>

#include "agent/host/mesh_report.h"
#include "common/log.h"

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
  if (mesh.changes.empty() && mesh.certificates.empty()) return;
  const auto messages = make_changes(mesh.name, host_, std::exchange(mesh.changes, {}), std::exchange(mesh.certificates, {}));
  if (!bus_.is_up()) return;
  for (const auto& message : messages) {
    if (!mesh.owner_gone && !bus_.tell(Destination::to(mesh.spec.owner), message)) retry_owner(mesh, false);
    for (const auto& [name, subscriber] : mesh.subscribers) bus_.tell(Destination::to(subscriber), message);
  }
}

void Publisher::flush_output(Mesh& mesh) {
  while (mesh.relaying) {
    auto message = mesh.relay.next();
    if (!message) return;
    message->mesh = mesh.name;
    if (bus_.tell(Destination::to(mesh.spec.owner), std::move(*message), wire::Lane::data)) continue;
    log::warn("mesh " + mesh.name + ": output is lost: the queue to the broker is full");
    return;
  }
}

void Publisher::forget(Mesh& mesh) {
  marked_.erase(&mesh);
  const auto found = retries_.find(&mesh);
  if (found == retries_.end()) return;
  bus_.reactor().cancel(found->second.timer);
  retries_.erase(found);
}

void Publisher::send_snapshot(const Mesh& mesh, const ProcId& to) {
  for (auto& message : make_snapshot(mesh, host_)) bus_.tell(Destination::to(to), std::move(message));
}

void Publisher::on_up(const std::map<std::string, std::unique_ptr<Mesh>, std::less<>>& meshes) {
  for (const auto& [name, mesh] : meshes) {
    if (!mesh->owner_gone) send_snapshot(*mesh, mesh->spec.owner);
    for (const auto& [text, subscriber] : mesh->subscribers) send_snapshot(*mesh, subscriber);
    mesh->relay.send_again();
    mark(*mesh);
  }
}

void Publisher::retry_owner(Mesh& mesh, bool was_output) {
  Retry& retry = retries_[&mesh];
  (was_output ? retry.output : retry.state) = true;
  if (retry.timer != 0) return;
  const auto now = bus_.reactor().now();
  const bool is_new = now - retry.last > 2 * last_retry;
  retry.delay = is_new ? first_retry : std::min(2 * retry.delay, last_retry);
  retry.timer = bus_.reactor().after(retry.delay, [this, &mesh] {
    Retry& due = retries_.at(&mesh);
    due.timer = 0;
    due.last = bus_.reactor().now();
    const bool state = std::exchange(due.state, false);
    const bool output = std::exchange(due.output, false);
    if (mesh.owner_gone) return;
    if (state) send_snapshot(mesh, mesh.spec.owner);
    if (output) {
      mesh.relay.send_again();
      mark(mesh);
    }
  });
}

}  // namespace meshbus::host
