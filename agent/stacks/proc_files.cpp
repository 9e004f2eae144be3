#include "agent/stacks/proc_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <memory>

#include "common/base/unique_fd.h"

namespace meshbus::stacks {
namespace {

/// /proc/PID/maps of a large program; a thousand mappings are 100 KB.
constexpr std::size_t kLongest = 16u << 20;

std::string path_of(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

pid_t parse_pid(std::string_view text) {
  pid_t pid = 0;
  const auto* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, pid).ptr == end && pid > 0 ? pid : 0;
}

}  // namespace

std::string read_proc_file(pid_t pid, std::string_view name) {
  const UniqueFd file(::open(path_of(pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  if (!file) return text;
  std::array<char, 16384> piece{};
  while (text.size() < kLongest) {
    const auto n = ::read(file.get(), piece.data(), piece.size());
    if (n <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
  return text;
}

std::string read_proc_word(pid_t pid, std::string_view name) {
  auto text = read_proc_file(pid, name);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string read_proc_link(pid_t pid, std::string_view name) {
  std::array<char, PATH_MAX> target{};
  const auto n = ::readlink(path_of(pid, name).c_str(), target.data(), target.size());
  return n < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(n));
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir(path_of(pid, "task").c_str()),
                                                  ::closedir);
  if (!tasks) return threads;
  while (const auto* entry = ::readdir(tasks.get())) {
    if (const auto tid = parse_pid(static_cast<const char*>(entry->d_name)); tid != 0)
      threads.push_back(tid);
  }
  std::sort(threads.begin(), threads.end());
  // The first thread has the number of its process, which need not be the smallest.
  if (const auto first = std::find(threads.begin(), threads.end(), pid); first != threads.end())
    std::rotate(threads.begin(), first, first + 1);
  return threads;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto tid : threads_of(pid)) {
    auto text = read_proc_file(pid, "task/" + std::to_string(tid) + "/children");
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (const auto child = parse_pid(word); child != 0) children.push_back(child);
    }
  }
  return children;
}

}  // namespace meshbus::stacks
