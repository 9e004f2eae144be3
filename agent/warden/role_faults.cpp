#include "agent/warden/role_faults.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>

namespace meshbus::warden {

namespace {

/// Cuts the first word off.
std::string_view take_word(std::string_view& text) {
  const auto end = std::min(text.find(' '), text.size());
  const auto word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::optional<RoleFaults::Order> RoleFaults::parse(std::string_view text) {
  const auto what = take_word(text);
  const auto role = take_word(text);
  std::uint32_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, length);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (what != "kill" && what != "freeze") return std::nullopt;
  if (role != "broker" && role != "agent") return std::nullopt;
  return Order{.role = role == "broker" ? RoleName::broker : RoleName::agent,
               .is_kill = what == "kill",
               .length = std::chrono::milliseconds(length)};
}

bool RoleFaults::add(const Order& order, pid_t pid, Time now) {
  auto& fault = faults_[static_cast<std::size_t>(order.role)];
  // One of a process that has ended does nothing any more.
  if (fault && fault->pid == pid) return false;
  fault = Fault{.pid = pid,
                .is_kill = order.is_kill,
                .begin = now + kDelay,
                .end = now + kDelay + order.length};
  return true;
}

std::vector<RoleFaults::Step> RoleFaults::take_steps(Time now,
                                                     const std::array<pid_t, kRoleCount>& pids) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    auto& fault = faults_[i];
    if (fault && fault->pid != pids[i]) fault.reset();
    if (!fault) continue;
    const auto role = static_cast<RoleName>(i);
    if (fault->is_kill) {
      if (now < fault->begin) continue;
      steps.push_back({role, fault->pid, SIGKILL});
      fault.reset();
    } else if (now >= fault->end) {
      if (fault->has_begun) steps.push_back({role, fault->pid, SIGCONT});
      fault.reset();
    } else if (!fault->has_begun && now >= fault->begin) {
      fault->has_begun = true;
      steps.push_back({role, fault->pid, SIGSTOP});
    }
  }
  return steps;
}

std::vector<RoleFaults::Step> RoleFaults::take_ends(const std::array<pid_t, kRoleCount>& pids) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    auto& fault = faults_[i];
    if (fault && fault->has_begun && fault->pid == pids[i])
      steps.push_back({static_cast<RoleName>(i), fault->pid, SIGCONT});
    fault.reset();
  }
  return steps;
}

std::optional<RoleFaults::Time> RoleFaults::due() const {
  std::optional<Time> due;
  for (const auto& fault : faults_) {
    if (!fault) continue;
    const Time next = fault->has_begun ? fault->end : fault->begin;
    if (!due || next < *due) due = next;
  }
  return due;
}

}  // namespace meshbus::warden
