#include "agent/host/lifecycle/memory_kills.h"

#include <ctime>
#include <fstream>

#include "agent/os/cgroup.h"

namespace meshbus::host {

MemoryKills MemoryKills::of_host(const std::string& cgroup) {
  return MemoryKills(os::find_memory_counter(cgroup).value_or(std::string()));
}

MemoryKills::MemoryKills(std::string file) : file_(std::move(file)) {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  since_ns_ = static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  const auto kills = read();
  if (kills) {
    told_ = *kills;
  } else {
    file_.clear();
  }
}

std::optional<std::uint64_t> MemoryKills::read() const {
  if (file_.empty()) return std::nullopt;
  std::ifstream file(file_);
  std::string key;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == "oom_kill") return value;
  }
  return std::nullopt;
}

OutOfMemory MemoryKills::take(std::int64_t ended_ns) {
  // A kill before our time is among those that were counted at the start.
  if (ended_ns < since_ns_) return OutOfMemory::unknown;
  const auto kills = read();
  if (!kills) return OutOfMemory::unknown;
  if (*kills <= told_) return OutOfMemory::no;
  ++told_;
  return OutOfMemory::yes;
}

void MemoryKills::on_counted_elsewhere(std::uint64_t kills) {
  if (file_.ends_with("/memory.events")) told_ += kills;
}

std::string MemoryKills::cgroup() const {
  return file_.substr(0, file_.rfind('/') == std::string::npos ? 0 : file_.rfind('/'));
}

}  // namespace meshbus::host
