#include "agent/os/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>

#include "agent/os/process_table.h"
#include "common/base/quantity.h"
#include "common/base/unique_fd.h"

namespace meshbus::os {

namespace {

/// A thread that forks at the moment of the signal is seen by the next round.
constexpr int kMostRounds = 16;

/// Adds the numbers of a file like "12 34 ".
void add_numbers(const std::string& path, std::vector<pid_t>& pids) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return;
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(file.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(' ', begin), text.size());
    if (const auto pid = parse_whole<pid_t>(std::string_view(text).substr(begin, end - begin)))
      pids.push_back(*pid);
    begin = end + 1;
  }
}

/// The children of each thread of that process.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> pids;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(tasks.c_str()), ::closedir);
  if (!directory) return pids;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] != '.') add_numbers(tasks + "/" + entry->d_name + "/children", pids);
  }
  return pids;
}

/// For kernels without these files.
std::vector<pid_t> children_in_table(pid_t pid) {
  std::vector<pid_t> pids;
  for (const pid_t one : list_pids()) {
    const auto entry = read_process(one);
    if (entry && entry->parent == pid) pids.push_back(one);
  }
  return pids;
}

std::vector<pid_t> find_children(pid_t pid) {
  static const bool has_files = list_children().has_value();
  return has_files ? children_of(pid) : children_in_table(pid);
}

}  // namespace

std::vector<pid_t> stop_tree(pid_t pid) {
  ::kill(-pid, SIGSTOP);
  ::kill(pid, SIGSTOP);  // it may be in the group of another process
  std::vector<pid_t> known;
  for (int round = 0; round < kMostRounds; ++round) {
    bool is_new = false;
    std::vector<pid_t> level{pid};
    while (!level.empty()) {
      std::vector<pid_t> below;
      for (const pid_t parent : level) {
        for (const pid_t child : find_children(parent)) {
          below.push_back(child);
          if (std::find(known.begin(), known.end(), child) != known.end()) continue;
          ::kill(child, SIGSTOP);
          known.push_back(child);
          is_new = true;
        }
      }
      level = std::move(below);
    }
    if (!is_new) break;
  }
  return known;
}

void continue_tree(pid_t pid, const std::vector<pid_t>& descendants) {
  for (const pid_t one : descendants) ::kill(one, SIGCONT);
  ::kill(-pid, SIGCONT);
  ::kill(pid, SIGCONT);
}

}  // namespace meshbus::os
