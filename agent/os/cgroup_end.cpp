#include "agent/os/cgroup_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include "common/base/unique_fd.h"

namespace meshbus::os {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> child_directories(const std::string& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored))
      found.push_back(entry->path().string());
  }
  return found;
}

// Kills `pid` unless its number went to a process outside of the cgroup since it was listed.
void kill_member(pid_t pid, const std::string& cgroup) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return;
  const auto listed = read_cgroup_file(cgroup + "/cgroup.procs");
  if (!listed || ("\n" + *listed).find("\n" + std::to_string(pid) + "\n") == std::string::npos)
    return;
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

}  // namespace

std::optional<std::string> read_cgroup_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void kill_cgroup(const std::string& path) {
  const UniqueFd file(::open((path + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), "1", 1) < 0) kill_listed(path);
}

bool is_populated(const std::string& path) {
  const auto events = read_cgroup_file(path + "/cgroup.events");
  return events && events->find("populated 1") != std::string::npos;
}

void kill_listed(const std::string& path) {
  std::istringstream pids(read_cgroup_file(path + "/cgroup.procs").value_or(""));
  for (pid_t pid = 0; pids >> pid;) {
    if (pid != ::getpid()) kill_member(pid, path);
  }
  for (const std::string& below : child_directories(path)) kill_listed(below);
}

bool empty_cgroup(const std::string& path, std::chrono::milliseconds deadline) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + deadline;
  kill_cgroup(path);
  const UniqueFd events(::open((path + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  // Reading through the same descriptor is what arms its poll.
  const auto populated = [&] {
    std::array<char, 256> buffer;
    const ssize_t got = ::pread(events.get(), buffer.data(), buffer.size(), 0);
    return got > 0 &&
           std::string_view(buffer.data(), static_cast<std::size_t>(got)).find("populated 1") !=
               std::string_view::npos;
  };
  while (populated()) {
    if (Clock::now() >= until) return false;
    pollfd changed{events.get(), POLLPRI, 0};
    // Normally the event comes within a millisecond; when it does not, someone is left that must be
    // named.
    if (::poll(&changed, 1, 10) == 0) {
      kill_listed(path);
      kill_cgroup(path);
    }
  }
  return true;
}

bool remove_cgroup_tree(const std::string& path) {
  for (const std::string& below : child_directories(path)) remove_cgroup_tree(below);
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

bool clear_cgroup_tree(const std::string& path, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    if (remove_cgroup_tree(path)) return true;
    // What is not there is empty, also where nothing can be made or removed.
    if (::access(path.c_str(), F_OK) != 0) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    kill_listed(path);
    ::poll(nullptr, 0, 1);
  }
}

}  // namespace meshbus::os
