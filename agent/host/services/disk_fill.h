#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/base/unique_fd.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// Takes space of a filesystem for a time. The file has no name: the kernel frees it when this
/// process ends, however it ends. Lives on the reactor's thread.
class DiskFill {
 public:
  /// At most one part in so many of what is free is taken.
  static constexpr std::uint64_t kShare = 2;

  DiskFill(Reactor& reactor, std::string directory)
      : reactor_(reactor), directory_(std::move(directory)) {}
  ~DiskFill();
  DiskFill(const DiskFill&) = delete;
  DiskFill& operator=(const DiskFill&) = delete;

  /// Errors: refused (one is there already, or it would take more than that share), io_error.
  Result<void> start(std::uint64_t bytes, std::chrono::milliseconds length);

 private:
  Reactor& reactor_;
  std::string directory_;
  UniqueFd file_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus::host
