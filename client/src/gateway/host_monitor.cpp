#include "client/src/gateway/host_monitor.h"

#include <utility>

#include "common/base/quantity.h"

namespace meshbus {

void HostMonitor::add(const std::vector<HostAddr>& hosts) {
  for (const auto& host : hosts) {
    hosts_.try_emplace(host);
    agents_.emplace(host_service(host).key(), host);
  }
}

std::vector<HostAddr> HostMonitor::all() const {
  std::vector<HostAddr> list;
  for (const auto& [host, state] : hosts_) list.push_back(host);
  return list;
}

const HostAddr* HostMonitor::agent_behind(std::uint64_t proc_key, std::uint64_t host_key) const {
  const auto found = agents_.find(proc_key);
  return found == agents_.end() || found->second.key() != host_key ? nullptr : &found->second;
}

std::vector<HostAddr> HostMonitor::to_ask(const std::function<bool(const HostAddr&)>& is_needed) {
  std::vector<HostAddr> list;
  for (auto& [host, state] : hosts_) {
    if (!state.is_lost && !is_needed(host)) {
      state.silent_since.reset();
      continue;
    }
    if (state.has_ended || std::exchange(state.is_asked, true)) continue;
    list.push_back(host);
  }
  return list;
}

bool HostMonitor::should_identify(const HostAddr& host) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.incarnation != 0 || found->second.has_ended)
    return false;
  return !std::exchange(found->second.is_asked, true);
}

HostMonitor::Finding HostMonitor::on_answer(const HostAddr& host,
                                            const Result<std::uint64_t>& incarnation, bool is_up,
                                            Time now, std::chrono::milliseconds limit) {
  Finding finding;
  auto& state = hosts_.at(host);
  state.is_asked = false;
  if (state.has_ended) return finding;
  if (!incarnation) {
    if (!is_up) return finding;
    state.problem = incarnation.error().to_string();
    finding.has_fallen_silent = !state.silent_since;
    if (!state.silent_since) state.silent_since = now;
    if (now - *state.silent_since < limit || std::exchange(state.is_lost, true)) return finding;
    finding.loss = "no answer for " + duration_to_text(limit) + ": " + state.problem;
    state.problem = *finding.loss;
    return finding;
  }
  finding.answers_again = state.silent_since.has_value();
  finding.is_replaced = state.incarnation != 0 && state.incarnation != *incarnation;
  state.silent_since.reset();
  state.is_lost = false;
  state.incarnation = *incarnation;
  return finding;
}

bool HostMonitor::on_ended(const HostAddr& host, const std::string& reason) {
  const auto found = hosts_.find(host);
  if (found == hosts_.end()) return false;
  found->second.has_ended = found->second.is_lost = true;
  found->second.problem = reason;
  return true;
}

void HostMonitor::extend(Time now) {
  for (auto& [host, state] : hosts_) {
    if (state.silent_since) state.silent_since = now;
  }
}

bool HostMonitor::has_ended(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.has_ended;
}

std::optional<Error> HostMonitor::loss_of(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || !found->second.is_lost) return std::nullopt;
  return Error(ErrorCode::host_unreachable,
               "host " + host.to_string() + " is lost: " + found->second.problem);
}

std::uint64_t HostMonitor::incarnation_of(const HostAddr& host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 0 : found->second.incarnation;
}

std::optional<HostAddr> HostMonitor::next_after(const HostAddr& host) const {
  const auto start = hosts_.find(host);
  if (start == hosts_.end()) return std::nullopt;
  for (auto at = std::next(start);; ++at) {
    if (at == hosts_.end()) at = hosts_.begin();
    if (at == start) return std::nullopt;
    if (!at->second.has_ended) return at->first;
  }
}

}  // namespace meshbus
