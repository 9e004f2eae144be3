#include "cli/doctor/task_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/quantity.h"

namespace meshbus::cli::doctor {
namespace {

namespace fs = std::filesystem;

/// The threads of all processes of this user that /proc shows.
std::uint64_t threads_of_user() {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    if (!parse_whole(entry->path().filename().string())) continue;
    std::ifstream status(entry->path() / "status");
    std::uint64_t uid = UINT64_MAX, threads = 0;
    for (std::string line; std::getline(status, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      if (key == "Uid:") words >> uid;
      if (key == "Threads:") words >> threads;
    }
    if (uid == ::getuid()) sum += threads;
  }
  return sum;
}

std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::string word;
  std::ifstream(path) >> word;
  return parse_whole(word);
}

/// The cgroups that may bound our processes, from the innermost one on.
std::vector<fs::path> cgroups_of_us() {
  std::vector<fs::path> found;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers != "pids") continue;
    const fs::path top = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/pids";
    fs::path at = line.substr(second + 1);
    while (at.has_relative_path()) {
      found.push_back(top / at.relative_path());
      at = at.parent_path();
    }
    found.push_back(top);
  }
  return found;
}

std::uint64_t left_of(const TaskFacts& tasks) {
  return tasks.limit == kUnlimited   ? kUnlimited
         : tasks.used >= tasks.limit ? 0
                                     : tasks.limit - tasks.used;
}

}  // namespace

std::optional<TaskFacts> gather_tasks() {
  std::optional<TaskFacts> tightest;
  const auto take = [&](TaskFacts tasks) {
    if (!tightest || left_of(tasks) < left_of(*tightest)) tightest = std::move(tasks);
  };
  rlimit limit{};
  // The limit does not bind root.
  if (::geteuid() != 0 && ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    take({threads_of_user(), limit.rlim_cur, "RLIMIT_NPROC"});
  for (const auto& cgroup : cgroups_of_us()) {
    const auto most = number_in(cgroup / "pids.max");
    const auto used = number_in(cgroup / "pids.current");
    if (most && used) take({*used, *most, (cgroup / "pids.max").string()});
  }
  return tightest;
}

}  // namespace meshbus::cli::doctor
