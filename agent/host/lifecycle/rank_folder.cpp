#include "agent/host/lifecycle/rank_folder.h"

#include <time.h>

#include <filesystem>
#include <system_error>

namespace meshbus::host {
namespace {

/// While there are files, the directory is not listed more often.
constexpr std::chrono::seconds kLookInterval{1};

bool operator==(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

/// Whether a file that comes now would change the time of the directory: the clock of file systems
/// advances in ticks of 10 ms at most.
bool is_settled(const timespec& changed) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const auto passed = std::chrono::seconds(now.tv_sec - changed.tv_sec) +
                      std::chrono::nanoseconds(now.tv_nsec - changed.tv_nsec);
  return passed > std::chrono::milliseconds(100);
}

}  // namespace

bool RankFolder::is_empty() {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return false;
  if (empty_since_.tv_sec != 0 && status.st_mtim == empty_since_) return true;
  empty_since_ = {};
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_ || !is_settled(status.st_mtim)) return false;
  std::error_code error;
  const bool is_empty = std::filesystem::is_empty(path_, error) && !error;
  if (is_empty) {
    empty_since_ = status.st_mtim;
  } else {
    next_look_ = now + kLookInterval;
  }
  return is_empty;
}

}  // namespace meshbus::host
