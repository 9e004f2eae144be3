#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <optional>

#include "common/unique_fd.h"
#include "meshbus/rank_report.h"

namespace meshbus::cli {

/// What the library's threads tell the main thread of a run. Any thread may tell; the descriptor is readable when there is something new.
class News {
 public:
  News() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  int fd() const noexcept { return fd_.get(); }
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
  /// Our output has no reader any more.
  void nobody_reads() {
    tell([&] { nobody_reads_ = true; });
  }
  void wake() {
    tell([] {});
  }
  void clear() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd_.get(), &count, sizeof count);
  }
  std::optional<RankReport> failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool is_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  bool is_unread() const {
    const std::lock_guard lock(mutex_);
    return nobody_reads_;
  }

 private:
  template <typename Change>
  void tell(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_.get(), &one, sizeof one);
  }
  UniqueFd fd_;
  mutable std::mutex mutex_;
  std::optional<RankReport> failure_;
  bool ended_ = false;
  bool nobody_reads_ = false;
};

}  // namespace meshbus::cli
