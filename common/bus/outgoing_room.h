#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "common/bus/postbox.h"
#include "meshbus/result.h"

namespace meshbus {

/// How much senders may have on its way, and a place to wait for room. Any thread.
class OutgoingRoom {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit OutgoingRoom(const Postbox::Most& most) : most_(most) {}
  const Postbox::Most& most() const noexcept { return most_; }
  bool has_room(const Postbox::Load& now, const Postbox::Load& size) const noexcept {
    return now.bytes + size.bytes <= most_.bytes && now.queued < most_.queued &&
           now.outstanding + size.outstanding <= Postbox::kMostOutstanding;
  }
  /// So much is on its way now: to be called after everything that makes it less.
  void report(const Postbox::Load& now);
  /// Waits until there was room for so much when it was reported last. False at the end of the
  /// time.
  bool wait(const Postbox::Load& size, Time until);
  /// The error queue_full, with the numbers.
  Error is_full(const Postbox::Load& now) const;

 private:
  const Postbox::Most most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Postbox::Load last_;    // guarded by mutex_
  unsigned waiting_ = 0;  // guarded by mutex_
};

}  // namespace meshbus
