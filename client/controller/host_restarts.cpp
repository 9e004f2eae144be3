#include "client/controller/host_restarts.h"

#include <algorithm>
#include <utility>

#include "client/controller/host_update.h"
#include "client/src/base/wire_reports.h"

namespace meshbus {
void HostRestarts::start(std::uint64_t rank, std::uint64_t restarts) {
  stops_.erase(rank);
  starts_[rank] = restarts;
  start_after_ = {};
  wait_ = kFirstWait;
}

void HostRestarts::stop(std::uint64_t rank, std::uint64_t cause, const std::string& why) {
  stops_[rank] = {.cause = cause, .why = why};
}

void HostRestarts::cancel(std::uint64_t rank) {
  starts_.erase(rank);
  stops_.erase(rank);
}

void HostRestarts::on_state(std::uint64_t rank, bool is_live, std::uint64_t restarts) {
  if (!is_live) stops_.erase(rank);
  const auto start = starts_.find(rank);
  if (start != starts_.end() && restarts >= start->second) starts_.erase(start);
}

void HostRestarts::on_connected() {
  is_stop_asked_ = is_start_asked_ = false;
  for (auto& [rank, stop] : stops_) stop.is_taken = false;
}

bool HostRestarts::has_stops() const {
  return std::any_of(stops_.begin(), stops_.end(),
                     [](const auto& entry) { return !entry.second.is_taken; });
}

std::optional<wire::StopProcsT> HostRestarts::take_stop(Time now) {
  if (is_stop_asked_ || now < stop_after_ || !has_stops()) return std::nullopt;
  wire::StopProcsT order;
  asked_stops_.clear();
  for (const auto& [rank, stop] : stops_) {
    if (stop.is_taken || (order.because && *order.because != stop.cause)) continue;
    order.because = stop.cause;
    order.reason = stop.why;
    asked_stops_.push_back(rank);
  }
  order.ranks = to_wire(to_rank_set(asked_stops_));
  is_stop_asked_ = true;
  return order;
}

std::optional<wire::RestartProcsT> HostRestarts::take_start(Time now) {
  if (is_start_asked_ || now < start_after_ || (starts_.empty() && !is_end_wanted_))
    return std::nullopt;
  wire::RestartProcsT order;
  asked_starts_.clear();
  // One number of restarts in each order.
  for (const auto& [rank, restarts] : starts_) {
    if (!asked_starts_.empty() && restarts != order.restarts) continue;
    order.restarts = static_cast<std::uint32_t>(restarts);
    asked_starts_.push_back(rank);
  }
  order.ranks = to_wire(to_rank_set(asked_starts_));
  is_start_asked_ = true;
  return order;
}

void HostRestarts::on_stop_answer(bool is_done, Time now) {
  is_stop_asked_ = false;
  if (!is_done) {
    stop_after_ = now + kAskAgain;
    return;
  }
  for (const auto rank : asked_stops_) {
    if (const auto stop = stops_.find(rank); stop != stops_.end()) stop->second.is_taken = true;
  }
}

std::vector<std::uint64_t> HostRestarts::on_start_answer(const Result<void>& answer, Time now) {
  is_start_asked_ = false;
  const bool is_refused = !answer && answer.error().code() == ErrorCode::unauthorised;
  refusals_ = is_refused ? refusals_ + 1 : 0;
  if (answer) {
    // The states of these ranks are under way. Should they be lost, the order is repeated.
    start_after_ = now + kAskAgain;
    return {};
  }
  const auto code = answer.error().code();
  if (code == ErrorCode::would_block) {
    start_after_ = now + wait_;
    wait_ = std::min<std::chrono::milliseconds>(2 * wait_, kLongestWait);
    return {};
  }
  start_after_ = now + kAskAgain;
  if (is_silence(code) || code == ErrorCode::queue_full) return {};
  // Another owner answers for the mesh, which the hosts are about to tell; or it never does.
  if (is_refused && refusals_ < kMostRefusals) return {};
  // A host that does not know the mesh, because it was started again, has nothing to end.
  if (asked_starts_.empty()) is_end_wanted_ = false;
  for (const auto rank : asked_starts_) starts_.erase(rank);
  return std::exchange(asked_starts_, {});
}

std::optional<HostRestarts::Time> HostRestarts::next_due() const {
  std::optional<Time> next;
  if (!is_stop_asked_ && has_stops()) next = stop_after_;
  if (!is_start_asked_ && (!starts_.empty() || is_end_wanted_))
    next = next ? std::min(*next, start_after_) : start_after_;
  return next;
}

}  // namespace meshbus
