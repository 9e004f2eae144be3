#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "client/controller/watch_event.h"

namespace meshbus {

/// The events of one mesh that a controller has not sent yet: each change of a rank once, in order,
/// with the report of that change. Pure: it holds no clock, socket or thread.
///
/// An end is held back until its exit report is known, because the exit report separates a cause
/// from its consequences. All ends that are ready at the same time go out together, the earliest
/// first, behind everything else.
class ReportQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// An end whose exit report has not come after this long is asked for.
  static constexpr std::chrono::milliseconds kExitReportAsk{300};
  /// It is asked for again at this interval.
  static constexpr std::chrono::milliseconds kAskAgain{1000};
  /// After this long an end is reported without its exit report.
  static constexpr std::chrono::milliseconds kExitReportLimit{3000};

  struct Reports {
    /// Numbered; WatchEvent::overall is left to the caller.
    std::vector<WatchEvent> events;
    /// Hosts that have to be asked for exit reports.
    std::set<HostAddr> ask;
  };

  /// Queues anything but the end of a rank: take() hands it out in the order in which it came.
  void add(WatchEvent event) { changes_.push_back(std::move(event)); }
  /// Queues the end of a rank: held until its exit report is known. One that is held already is
  /// released.
  void add_end(WatchEvent event, Time now);
  /// The rank runs again: the end of the incarnation before, if it is held back, goes out first,
  /// with or without exit report.
  void release(std::uint64_t rank);
  /// Gives an exit report to the latest untold end of that rank that has none. Those of one message
  /// go in from its back: several incarnations of a rank may end in one message, and an exit report
  /// does not name its incarnation.
  void report_exit(std::uint64_t rank, const std::shared_ptr<const wire::ExitReportT>& exit_report);
  /// Whether an end of that rank is held.
  bool holds(std::uint64_t rank) const { return held_.contains(rank); }
  /// Whether an end on that host is held.
  bool holds_any_of(const HostAddr& host) const { return held_on_.contains(host); }
  /// Whether nothing is left to tell.
  bool empty() const noexcept { return changes_.empty() && held_.empty(); }
  /// Hands out, once, the events that can go out now.
  Reports take(Time now);
  /// When take() has something to do although nothing was added.
  std::optional<Time> next_due() const;

  /// Notes whether the mesh is complete: every rank has ended and was reported. True when it has
  /// just become so.
  bool complete(bool is_complete) noexcept;
  bool is_complete() const noexcept { return is_complete_; }
  /// The number of the latest report.
  std::uint64_t generation() const noexcept { return generation_; }

  /// The events that went out, in the order of take(), for a late subscriber: ends behind
  /// everything else, the earliest first.
  static void sort(std::vector<WatchEvent>& events);

 private:
  struct Held {
    WatchEvent event;
    Time noticed;
    Time ask;
  };
  using HeldEnds = std::map<std::uint64_t, Held>;

  /// Removes it; returns the next one.
  HeldEnds::iterator move_to(std::vector<WatchEvent>& events, HeldEnds::iterator entry);

  std::vector<WatchEvent> changes_;
  /// Rank -> places in changes_ of its ends that were released without exit report.
  std::map<std::uint64_t, std::vector<std::size_t>> released_;
  /// Rank -> its end.
  HeldEnds held_;
  /// How many of them each host has; none has 0.
  std::map<HostAddr, std::uint64_t> held_on_;
  std::uint64_t generation_ = 0;
  bool is_complete_ = false;
};

}  // namespace meshbus
