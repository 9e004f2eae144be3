// What a Supervisor does for the meshes that it answers for (docs/decisions/0020-handover.md).
#include "client/controller/supervisor.h"

#include <algorithm>

#include "wire/lifecycle_generated.h"

namespace meshbus {

void Supervisor::note_leases() {
  if (names_.empty()) return;
  std::erase_if(held_, [this](const auto& name) { return !meshes_.contains(name); });
  std::map<const Host*, std::map<std::string, std::chrono::milliseconds>> leases;
  for (const auto& [name, mesh] : meshes_) {
    if (!is_owned(mesh)) continue;
    for (const auto& [address, host] : hosts_) {
      const auto lease = mesh.lease_on(address);
      if (lease.count() > 0 && mesh.live_on(address) != 0) leases[&host].emplace(name, lease);
    }
  }
  for (auto& [address, host] : hosts_) host.leases.set(leases[&host]);
}

bool Supervisor::may_renew(const Host& host) const {
  // Who does not answer is renewed as soon as it does.
  return is_up_ && !host.is_silent && !host.is_renewing;
}

void Supervisor::renew_all(Actions& actions, Time now) {
  for (auto& [address, host] : hosts_) {
    const auto due = host.leases.due();
    if (!may_renew(host) || !due || *due > now) continue;
    host.is_renewing = true;
    actions.questions.push_back({Question::Kind::renew, address, {}, {}, host.leases.renew(now)});
  }
}

void Supervisor::on_renewed(const Question& question, Host& host, const HostAnswer& answer, Time now) {
  // Those that are there are renewed all the same.
  if (answer || answer.error().code() == ErrorCode::not_exist) return;
  host.leases.failed(question.meshes, now);
}

Supervisor::Actions Supervisor::add_name(const std::string& name, Time now) {
  Actions actions;
  if (!names_.insert(name).second) return actions;
  note_leases();
  if (is_up_) renew_all(actions, now);
  return actions;
}

void Supervisor::let_go(const std::string& mesh) {
  held_.erase(mesh);
  note_leases();
}

std::size_t Supervisor::live_owned() const {
  std::size_t count = 0;
  for (const auto& [name, mesh] : meshes_) count += mesh.live() != 0 && is_owned(mesh) ? 1U : 0U;
  return count;
}

bool Supervisor::has_told_owned() const {
  return std::none_of(meshes_.begin(), meshes_.end(),
                      [this](const auto& entry) { return entry.second.is_monitored() && is_owned(entry.second); });
}

Supervisor::Actions Supervisor::stop_owned(const wire::StopProcsT& order, Time now) {
  Actions actions;
  for (auto& [name, mesh] : meshes_) {
    if (mesh.live() == 0 || !is_owned(mesh)) continue;
    auto one = order;
    one.mesh = name;
    add(actions, mesh, mesh.stop(std::move(one), now), now);
  }
  return actions;
}

}  // namespace meshbus
