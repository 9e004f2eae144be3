#include "cli/run/job_roles.h"

#include <algorithm>

namespace meshbus::cli {

using std::chrono::milliseconds;

JobRoles::JobRoles(const RunArguments& run, const EventBell& bell) {
  for (std::size_t number = 0; number < run.roles.size(); ++number)
    roles_.push_back(std::make_unique<JobRole>(run, number, bell));
}

bool JobRoles::is_up() const {
  return std::any_of(roles_.begin(), roles_.end(), [](const auto& role) { return role->is_up(); });
}

bool JobRoles::is_spawning() const {
  return std::any_of(roles_.begin(), roles_.end(),
                     [](const auto& role) { return role->parts().is_spawning.load(); });
}

bool JobRoles::is_blocked() const {
  return std::any_of(roles_.begin(), roles_.end(),
                     [](const auto& role) { return role->is_up() && role->events().is_blocked(); });
}

bool JobRoles::have_all_ended() const {
  return std::all_of(roles_.begin(), roles_.end(),
                     [](const auto& role) { return !role->is_up() || role->known().is_ended(); });
}

std::optional<std::chrono::steady_clock::time_point> JobRoles::due() const {
  std::optional<std::chrono::steady_clock::time_point> first;
  for (const auto& role : roles_) {
    if (const auto due = role->due(); due && (!first || *due < *first)) first = due;
  }
  return first;
}

milliseconds JobRoles::grace() const {
  milliseconds longest{0};
  // Another thread writes to those that are still being started.
  for (const auto& role : roles_) {
    if (role->is_up()) longest = std::max(longest, role->parts().grace);
  }
  return longest;
}

void JobRoles::release_others(const JobOrder& order) {
  JobRole::Time at;
  for (const auto number : order.ending()) {
    for (const auto& rank : roles_[number]->known().ranks) at = std::max(at, rank.ended);
  }
  for (std::size_t number = 0; number < size(); ++number) {
    if (!order.is_ending(number)) roles_[number]->release(at);
  }
}

RoleViews JobRoles::views() const {
  RoleViews views;
  for (const auto& role : roles_) {
    if (role->is_up()) views.push_back(role->view());
  }
  return views;
}

}  // namespace meshbus::cli
