#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/event_bell.h"
#include "common/base/mpi_notice.h"
#include "meshbus/rank_report.h"

namespace meshbus::cli {

/// What the library's threads tell the main thread of a run about one role. Any thread may tell;
/// the bell rings when there is something new.
/// Large because: it has a function for each thing that is told, and one that asks for it.
class RunEvents {
 public:
  explicit RunEvents(const EventBell& bell) : bell_(bell) {}
  /// A rank failed; the first one that is told stays.
  void failed(const RankReport& rank) {
    tell([&] {
      if (!failure_) failure_ = rank;
    });
  }
  /// All ranks have ended and their output is written.
  void ended() {
    tell([&] { ended_ = true; });
  }
  /// A rank is being stopped, or was; by whom, the main thread knows.
  void stopped(std::uint64_t rank) {
    tell([&] {
      auto& first = leaving_ && rank >= leaving_->first ? leaving_->stopped : stopped_;
      if (!first) first = rank;
    });
  }
  /// The role shrinks: that ranks from `first` on are stopped is no reason to stop the others.
  void begin_leaving(std::uint64_t first) {
    tell([&] { leaving_ = {.first = first, .stopped = {}}; });
  }
  /// It does not shrink after all: those of them that were stopped count.
  void keep_leaving() {
    tell([&] {
      if (leaving_ && !stopped_) stopped_ = leaving_->stopped;
      leaving_.reset();
    });
  }
  /// The role has so many ranks now. (The news of a growth before may come behind begin_leaving().)
  void resized(std::uint64_t size) {
    tell([&] {
      if (leaving_ && size <= leaving_->first) leaving_.reset();
      ready_.erase(ready_.lower_bound(size), ready_.end());
    });
  }
  /// The run stops its ranks, and starts no others.
  void stopping() { is_stopping_ = true; }
  bool is_stopping() const { return is_stopping_; }
  /// Our output cannot be written any more, for that errno.
  void unwritable(int error) {
    tell([&] { output_error_ = error; });
  }
  /// Our stdin cannot be carried on to a rank that still reads.
  void input_lost(std::string why) {
    tell([&] { input_error_ = std::move(why); });
  }
  /// Our output has a reader, but it does not read, or reads again.
  void blocked(bool is_blocked) {
    tell([&] { blocked_ = is_blocked; });
  }
  /// The host of a rank has found it frozen; the first one since take_frozen() stays.
  void frozen(const RankReport& rank) {
    tell([&] {
      if (!frozen_) frozen_ = rank;
    });
  }
  /// An MPI helper tells something of a rank.
  void noticed(const mpi::Notice& notice) {
    tell([&] { notices_.push_back(notice); });
  }
  /// An MPI helper has ended; the first one that is told stays.
  void helper_lost(const RankReport& helper) {
    tell([&] {
      if (!helper_lost_) helper_lost_ = helper;
    });
  }
  /// A rank has written something. Wakes nobody.
  void wrote() { last_output_ = std::chrono::steady_clock::now(); }
  std::chrono::steady_clock::time_point last_output() const { return last_output_; }
  void wake() {
    tell([] {});
  }
  /// A rank is, or was, ready.
  void ready(std::uint64_t rank) {
    tell([&] { ready_.insert(rank); });
  }
  /// A rank begins another incarnation, which is to be ready anew.
  void unready(std::uint64_t rank) {
    tell([&] { ready_.erase(rank); });
  }
  /// How many ranks are, or were, ready in their last incarnation.
  std::size_t num_ready() const {
    const std::lock_guard lock(mutex_);
    return ready_.size();
  }
  std::optional<RankReport> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool is_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  bool is_blocked() const {
    const std::lock_guard lock(mutex_);
    return blocked_;
  }
  std::optional<std::uint64_t> first_stopped() const {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  std::optional<RankReport> take_frozen() {
    const std::lock_guard lock(mutex_);
    return std::exchange(frozen_, std::nullopt);
  }
  /// Those that have come since the last call.
  std::vector<mpi::Notice> take_notices() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notices_, {});
  }
  std::optional<RankReport> lost_helper() const {
    const std::lock_guard lock(mutex_);
    return helper_lost_;
  }
  /// 0 = none.
  int output_error() const {
    const std::lock_guard lock(mutex_);
    return output_error_;
  }
  /// Empty = none.
  std::string input_error() const {
    const std::lock_guard lock(mutex_);
    return input_error_;
  }

 private:
  /// Ranks that are taken away.
  struct Leaving {
    std::uint64_t first;
    std::optional<std::uint64_t> stopped;
  };
  template <typename Change>
  void tell(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    bell_.ring();
  }
  const EventBell& bell_;
  std::atomic<std::chrono::steady_clock::time_point> last_output_{};
  mutable std::mutex mutex_;
  std::optional<RankReport> failure_;
  std::set<std::uint64_t> ready_;
  bool ended_ = false;
  std::optional<std::uint64_t> stopped_;
  int output_error_ = 0;
  std::string input_error_;
  bool blocked_ = false;
  std::vector<mpi::Notice> notices_;
  std::optional<RankReport> helper_lost_;
  std::optional<RankReport> frozen_;
  std::optional<Leaving> leaving_;
  std::atomic<bool> is_stopping_ = false;
};

}  // namespace meshbus::cli
