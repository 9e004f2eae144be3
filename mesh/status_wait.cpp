#include "meshbus/status_wait.h"

#include "mesh/duration.h"

#include <algorithm>
#include <string>
#include <utility>

namespace meshbus {
namespace {

/// As much of a limit as can be added to a time.
std::optional<std::chrono::milliseconds> bounded(std::optional<std::chrono::milliseconds> limit) {
  constexpr std::chrono::milliseconds a_century = std::chrono::hours(100 * 365 * 24);
  if (limit) limit = std::clamp(*limit, std::chrono::milliseconds(0), a_century);
  return limit;
}

/// Statuses for an error: the first ones, when there are many runs.
std::string describe(const StatusOverlay& statuses) {
  constexpr std::size_t most = 16;
  const auto& runs = statuses.runs();
  if (runs.size() <= most) return to_string(statuses);
  const auto shown = StatusOverlay::of({runs.begin(), runs.begin() + most});
  return to_string(shown) + "; and " + std::to_string(statuses.num_ranks() - shown.num_ranks()) +
         " more ranks, up to rank " + std::to_string(runs.back().end - 1);
}

}  // namespace

StatusWait::StatusWait(Region region, Status::Kind minimum, Limits limits, Time now)
    : statuses_(std::move(region), Status::Kind::not_exist),
      minimum_(minimum),
      limits_{bounded(limits.deadline), bounded(limits.idle)},
      begin_(now),
      last_change_(now) {}

Result<void> StatusWait::merge(const StatusOverlay& newer, Time now) {
  const auto changed = statuses_.merge(newer);
  if (!changed) return fail(changed.error());
  if (*changed != 0) last_change_ = now;
  return {};
}

Result<void> StatusWait::set(std::uint64_t rank, const Status& status, Time now) {
  const auto changed = statuses_.set(rank, status);
  if (!changed) return fail(changed.error());
  if (*changed != 0) last_change_ = now;
  return {};
}

StatusWait::State StatusWait::check(Time now) const noexcept {
  if (count_missing(statuses_, minimum_) == 0) return State::complete;
  if (limits_.deadline && now - begin_ >= *limits_.deadline) return State::deadline;
  if (limits_.idle && now - last_change_ >= *limits_.idle) return State::idle;
  return State::waiting;
}

std::optional<StatusWait::Time> StatusWait::next_due() const noexcept {
  if (count_missing(statuses_, minimum_) == 0) return std::nullopt;
  std::optional<Time> due;
  if (limits_.deadline) due = begin_ + *limits_.deadline;
  if (limits_.idle)
    due = due ? std::min(*due, last_change_ + *limits_.idle) : last_change_ + *limits_.idle;
  return due;
}

Result<void> StatusWait::outcome(Time now) const {
  const State state = check(now);
  if (state == State::complete) return {};
  std::string text;
  switch (state) {
    case State::deadline: text = "not within " + duration_text(*limits_.deadline); break;
    case State::idle: text = "no change for " + duration_text(*limits_.idle); break;
    default: text = "not yet"; break;
  }
  return fail(ErrorCode::timeout,
              text + ": " + std::to_string(count_missing(statuses_, minimum_)) + " of " +
                  std::to_string(statuses_.num_ranks()) + " ranks have not reached " +
                  std::string(to_string(minimum_)) + ": " + describe(missing(statuses_, minimum_)));
}

}  // namespace meshbus
