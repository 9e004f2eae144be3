#include "agent/os/mpi_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/os_error.h"

namespace meshbus::os {
namespace {

constexpr std::string_view kPrefix = "meshbus-mpi-";
constexpr const char* kLock = "lock";

/// In memory first: what ranks share goes through these files.
constexpr auto kRoots = std::to_array<const char*>({"/dev/shm", "/tmp"});

/// The lock of a helper that is gone, ours now; empty when it lives, or is about to.
UniqueFd take_lock(const std::filesystem::path& directory) {
  UniqueFd lock(::open((directory / kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock = UniqueFd();
  return lock;
}

bool is_own_directory(const std::filesystem::path& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

/// The lock goes last: by it the next helper finds what is left when this one is killed meanwhile.
void remove_with_lock_last(const std::filesystem::path& path) {
  std::error_code ignored;
  std::vector<std::filesystem::path> inside;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
    if (entry.path().filename() != kLock) inside.push_back(entry.path());
  for (const auto& one : inside) std::filesystem::remove_all(one, ignored);
  std::filesystem::remove_all(path, ignored);
}

}  // namespace

Result<MpiDirectory> MpiDirectory::make(std::string_view job, std::uint64_t host) {
  remove_left();
  const auto name = std::string(kPrefix) + std::string(job) + "-" + std::to_string(host);
  std::string problem;
  for (const char* root : kRoots) {
    const auto path = std::filesystem::path(root) / name;
    if (::mkdir(path.c_str(), 0700) != 0) {
      problem = os_error("mkdir " + path.string());
      continue;
    }
    UniqueFd lock(::open((path / kLock).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0)
      return MpiDirectory(path, std::move(lock));
    problem = os_error((path / kLock).string());
  }
  return fail(ErrorCode::io_error, problem);
}

void MpiDirectory::remove_left() {
  for (const char* root : kRoots) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(root, ignored)) {
      if (!entry.path().filename().string().starts_with(kPrefix) || !is_own_directory(entry.path()))
        continue;
      if (const auto lock = take_lock(entry.path())) remove_with_lock_last(entry.path());
    }
  }
}

MpiDirectory::~MpiDirectory() {
  if (lock_) remove_with_lock_last(path_);
}

}  // namespace meshbus::os
