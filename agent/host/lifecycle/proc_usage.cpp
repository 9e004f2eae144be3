#include "agent/host/lifecycle/proc_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>

#include "common/base/unique_fd.h"

namespace meshbus::host {
namespace {

using Buffer = std::array<char, 4096>;
using Path = std::array<char, 48>;

Path path_of(pid_t pid, const char* name) {
  Path path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/%s", pid, name);
  return path;
}

/// Opened each time: a descriptor kept for each proc would be as quick as half of this, and cost a
/// third of the procs that a host may have.
std::string_view read(pid_t pid, const char* name, Buffer& buffer) {
  const UniqueFd file(::open(path_of(pid, name).data(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
  return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

std::uint64_t number_at(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The number behind "\nNAME:" and blanks; 0 when there is none.
std::uint64_t number_of(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + name.size());
  const auto digit = text.find_first_not_of(" \t");
  return digit == std::string_view::npos ? 0 : number_at(text.substr(digit));
}

std::uint32_t count_descriptors(pid_t pid) {
  const auto path = path_of(pid, "fd");
  struct stat status{};
  if (::stat(path.data(), &status) != 0) return 0;
  if (status.st_size > 0) return static_cast<std::uint32_t>(status.st_size);  // since Linux 6.2
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.data()), ::closedir);
  std::uint32_t count = 0;
  while (directory != nullptr) {
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') ++count;
  }
  return count;
}

}  // namespace

bool parse_stat(std::string_view text, long ticks_per_second, ProcUsage& usage) {
  // The second field is the name, in brackets, and may have blanks and brackets in it. Then: 3
  // state ... 14 utime 15 stime ... 22 starttime.
  const auto name_end = text.rfind(')');
  if (name_end == std::string_view::npos || ticks_per_second <= 0) return false;
  text.remove_prefix(name_end + 1);
  const auto to_us = [&](std::uint64_t ticks) {
    return ticks * 1'000'000 / static_cast<std::uint64_t>(ticks_per_second);
  };
  for (int field = 3; field <= 22; ++field) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return false;
    text.remove_prefix(begin);
    if (field == 14) usage.user_us = to_us(number_at(text));
    if (field == 15) usage.system_us = to_us(number_at(text));
    if (field == 22) usage.start_ticks = number_at(text);
    const auto end = text.find(' ');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  }
  return true;
}

void parse_status(std::string_view text, ProcUsage& usage) {
  usage.peak_rss_bytes = number_of(text, "\nVmHWM:") * 1024;
  usage.rss_bytes = number_of(text, "\nVmRSS:") * 1024;
  usage.threads = static_cast<std::uint32_t>(number_of(text, "\nThreads:"));
}

std::optional<ProcUsage> read_usage(pid_t pid) {
  static const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  ProcUsage usage;
  Buffer buffer;
  if (pid <= 0 || !parse_stat(read(pid, "stat", buffer), ticks_per_second, usage))
    return std::nullopt;
  parse_status(read(pid, "status", buffer), usage);
  usage.descriptors = count_descriptors(pid);
  return usage;
}

}  // namespace meshbus::host
