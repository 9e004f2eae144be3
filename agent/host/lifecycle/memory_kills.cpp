#include "agent/host/lifecycle/memory_kills.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string_view>
#include <system_error>

#include "agent/os/cgroup.h"

namespace meshbus::host {

MemoryKills MemoryKills::of_host(const std::string& cgroup) {
  return MemoryKills(os::find_memory_counter(cgroup).value_or(std::string()));
}

MemoryKills::MemoryKills(std::string file)
    : file_(std::move(file)), counter_(::open(file_.c_str(), O_RDONLY | O_CLOEXEC)) {
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
  std::array<char, 1024> content{};
  const ssize_t got = ::pread(counter_.get(), content.data(), content.size(), 0);
  std::string_view lines(content.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  constexpr std::string_view kKey = "oom_kill ";
  while (!lines.empty()) {
    const auto line = lines.substr(0, lines.find('\n'));
    std::uint64_t value = 0;
    if (line.starts_with(kKey) &&
        std::from_chars(line.data() + kKey.size(), line.data() + line.size(), value).ec ==
            std::errc())
      return value;
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
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
