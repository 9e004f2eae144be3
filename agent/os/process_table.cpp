#include "agent/os/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>

#include "common/base/quantity.h"
#include "common/base/unique_fd.h"

namespace meshbus::os {

namespace {

// The next blank-separated field as a number.
bool take_number(std::string_view& text, long& value) {
  const auto start = text.find_first_not_of(' ');
  if (start == std::string_view::npos) return false;
  text.remove_prefix(start);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<ProcessEntry> parse_stat(std::string_view text) {
  ProcessEntry entry;
  long pid = 0;
  if (!take_number(text, pid)) return std::nullopt;
  const auto rest_at = text.rfind(')');
  if (rest_at == std::string_view::npos || rest_at + 2 >= text.size()) return std::nullopt;
  entry.pid = static_cast<pid_t>(pid);
  entry.state = text[rest_at + 2];
  text.remove_prefix(rest_at + 3);
  long parent = 0;
  long group = 0;
  long session = 0;
  if (!take_number(text, parent) || !take_number(text, group) || !take_number(text, session))
    return std::nullopt;
  entry.parent = static_cast<pid_t>(parent);
  entry.group = static_cast<pid_t>(group);
  entry.session = static_cast<pid_t>(session);
  // tty, tpgid, flags, 4 faults, 4 times, priority, nice, then threads; flags may not fit a long of
  // 32 bits, which no process has here.
  for (int i = 0; i < 13; ++i) {
    long value = 0;
    if (!take_number(text, value)) return std::nullopt;
    if (i == 7 || i == 8) entry.cpu_ticks += value;  // user time, system time
  }
  if (!take_number(text, entry.threads)) return std::nullopt;
  return entry;
}

std::optional<ProcessEntry> read_process(pid_t pid) {
  std::array<char, 32> path{"/proc/"};
  char* end = std::to_chars(path.data() + 6, path.data() + 20, pid).ptr;
  for (const char letter : std::string_view("/stat")) *end++ = letter;
  const UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> text;
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got <= 0) return std::nullopt;
  return parse_stat({text.data(), static_cast<std::size_t>(got)});
}

std::vector<pid_t> list_pids() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc"), ::closedir);
  if (!directory) return pids;
  // The kernel lists processes in ascending order.
  while (const dirent* entry = ::readdir(directory.get())) {
    if (const auto pid = parse_whole<pid_t>(entry->d_name)) pids.push_back(*pid);
  }
  return pids;
}

std::optional<std::vector<pid_t>> list_children() {
  const UniqueFd file(::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::vector<pid_t> pids;
  std::array<char, 1u << 16> buffer;
  std::string text;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::string_view rest(text);
  for (long pid = 0; take_number(rest, pid);) pids.push_back(static_cast<pid_t>(pid));
  return pids;
}

bool is_alive(pid_t pid) {
  const auto entry = read_process(pid);
  if (!entry) return false;
  return (entry->state != 'Z' && entry->state != 'X') || entry->threads > 1;
}

}  // namespace meshbus::os
