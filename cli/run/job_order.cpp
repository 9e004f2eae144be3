#include "cli/run/job_order.h"

#include <algorithm>
#include <string_view>

#include "common/base/did_you_mean.h"

namespace meshbus::cli {
namespace {

constexpr std::string_view kDone = ":done";

bool has_ended(JobOrder::State state) {
  return state == JobOrder::State::done || state == JobOrder::State::unready ||
         state == JobOrder::State::failed;
}

tl::unexpected<Error> refuse(const RoleArguments& role, const std::string& why) {
  return fail(ErrorCode::configuration_error,
              (role.source.empty() ? role.name : role.source) + ": after: " + why);
}

}  // namespace

Result<JobOrder> JobOrder::make(const std::vector<RoleArguments>& roles) {
  JobOrder order;
  for (const auto& role : roles) order.names_.push_back(role.name);
  order.waits_.resize(roles.size());
  order.states_.resize(roles.size(), State::waiting);
  for (std::size_t number = 0; number < roles.size(); ++number) {
    const auto& role = roles[number];
    if (role.ends_job) order.ending_.push_back(number);
    for (const auto& text : role.after) {
      std::string_view name(text);
      const bool is_done = name.ends_with(kDone);
      if (is_done) name.remove_suffix(kDone.size());
      const auto found = std::find(order.names_.begin(), order.names_.end(), name);
      if (found == order.names_.end()) {
        const auto near = did_you_mean(name, order.names_);
        return refuse(role,
                      "there is no role '" + std::string(name) + "'" +
                          (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?"));
      }
      const auto other = static_cast<std::size_t>(found - order.names_.begin());
      if (other == number) return refuse(role, "a role cannot wait for itself");
      order.waits_[number].push_back({other, is_done ? State::done : State::ready});
    }
  }
  if (const auto circle = order.find_circle()) {
    std::string text;
    for (const auto number : *circle)
      text += (text.empty() ? "" : " waits for ") + order.names_[number];
    return refuse(roles[circle->front()],
                  text + ": they wait for each other; leave one of these out");
  }
  if (order.ending_.empty()) {
    for (std::size_t number = 0; number < roles.size(); ++number) order.ending_.push_back(number);
  }
  return order;
}

std::optional<std::vector<std::size_t>> JobOrder::find_circle() const {
  // Roles that wait for nothing, or for such roles only, are in no circle.
  std::vector<bool> is_free(waits_.size());
  for (bool has_changed = true; std::exchange(has_changed, false);) {
    for (std::size_t role = 0; role < waits_.size(); ++role) {
      const bool is_clear = std::all_of(waits_[role].begin(), waits_[role].end(),
                                        [&](const Wait& wait) { return is_free[wait.role]; });
      if (!is_clear || is_free[role]) continue;
      is_free[role] = true;
      has_changed = true;
    }
  }
  const auto first = std::find(is_free.begin(), is_free.end(), false);
  if (first == is_free.end()) return std::nullopt;
  std::vector<std::size_t> path{static_cast<std::size_t>(first - is_free.begin())};
  while (true) {
    const auto& waits = waits_[path.back()];
    const auto next = std::find_if(waits.begin(), waits.end(),
                                   [&](const Wait& wait) { return !is_free[wait.role]; });
    const auto seen = std::find(path.begin(), path.end(), next->role);
    const bool is_closed = seen != path.end();
    if (is_closed) path.erase(path.begin(), seen);
    path.push_back(next->role);
    if (is_closed) return path;
  }
}

bool JobOrder::is_met(const Wait& wait) const {
  const auto state = states_[wait.role];
  if (state == State::unready) return wait.until == State::done;
  return state == State::done || (wait.until == State::ready && state == State::ready);
}

bool JobOrder::is_missed(const Wait& wait) const {
  const auto state = states_[wait.role];
  return state == State::failed || (state == State::unready && !is_met(wait));
}

std::vector<std::size_t> JobOrder::startable() const {
  std::vector<std::size_t> roles;
  for (std::size_t role = 0; role < states_.size(); ++role) {
    if (states_[role] != State::waiting) continue;
    if (std::all_of(waits_[role].begin(), waits_[role].end(),
                    [&](const Wait& wait) { return is_met(wait); }))
      roles.push_back(role);
  }
  return roles;
}

std::optional<JobOrder::Stuck> JobOrder::stuck() const {
  for (std::size_t role = 0; role < states_.size(); ++role) {
    if (states_[role] != State::waiting) continue;
    for (const auto& wait : waits_[role]) {
      if (is_missed(wait)) return Stuck{role, wait.role};
    }
  }
  return std::nullopt;
}

bool JobOrder::is_over() const {
  return std::all_of(ending_.begin(), ending_.end(),
                     [&](std::size_t role) { return has_ended(states_[role]); });
}

bool JobOrder::is_done() const {
  return is_over() && std::none_of(ending_.begin(), ending_.end(), [&](std::size_t role) {
           return states_[role] == State::failed;
         });
}

bool JobOrder::is_ending(std::size_t role) const {
  return std::find(ending_.begin(), ending_.end(), role) != ending_.end();
}

std::string JobOrder::words_of_wait(std::size_t role) const {
  std::string text;
  for (const auto& wait : waits_[role]) {
    if (is_met(wait)) continue;
    text += (text.empty() ? "" : ", ") + names_[wait.role] +
            (wait.until == State::done ? " to be done" : " to be ready");
  }
  return text;
}

}  // namespace meshbus::cli
