#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::os {

/// The directory of one helper of `run --mpi`, in memory where there is such a file system
/// (/dev/shm), for its user alone: what MPI libraries would leave in /tmp and /dev/shm goes with
/// it. One that is left by a helper that was killed is removed by its host, or by the next helper
/// on this machine.
class MpiDirectory {
 public:
  /// Errors: io_error.
  static Result<MpiDirectory> make(std::string_view job, std::uint64_t host);
  /// Removes those whose helpers are gone.
  static void remove_left();

  MpiDirectory(MpiDirectory&&) noexcept = default;
  MpiDirectory& operator=(MpiDirectory&&) = delete;
  /// Removes it.
  ~MpiDirectory();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  MpiDirectory(std::filesystem::path path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  UniqueFd lock_;  ///< Locked as long as the helper lives.
};

}  // namespace meshbus::os
