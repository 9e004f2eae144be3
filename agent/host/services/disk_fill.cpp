#include "agent/host/services/disk_fill.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <utility>

#include "common/base/os_error.h"

namespace meshbus::host {

DiskFill::~DiskFill() {
  reactor_.cancel(timer_);
}

Result<void> DiskFill::start(std::uint64_t bytes, std::chrono::milliseconds length) {
  if (directory_.empty()) return fail(ErrorCode::refused, "this host has no run directory");
  if (file_) return fail(ErrorCode::refused, "its disk is being filled already");
  UniqueFd file(::open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return fail(ErrorCode::io_error, os_error("a file without a name in " + directory_));
  struct statvfs room{};
  if (::fstatvfs(file.get(), &room) != 0)
    return fail(ErrorCode::io_error, os_error("the space that is free in " + directory_));
  const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
  if (bytes > free / kShare)
    return fail(ErrorCode::refused, std::to_string(bytes) + " bytes are more than half of the " +
                                        std::to_string(free) + " that are free in " + directory_);
  // Not posix_fallocate(): where the filesystem cannot do it, that would write for a long time.
  if (::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0)
    return fail(ErrorCode::io_error, os_error("taking space in " + directory_));
  file_ = std::move(file);
  timer_ = reactor_.after(length, [this] {
    timer_ = 0;
    file_.reset();
  });
  return {};
}

}  // namespace meshbus::host
