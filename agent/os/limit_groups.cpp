#include "agent/os/limit_groups.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>

#include "agent/os/cgroup.h"

namespace meshbus::os {

namespace {

constexpr std::uint64_t kPeriodUs = 100'000;  // the kernel's own
constexpr std::uint64_t kLimitSlack =
    128 << 10;  // a request for more pages than are left gets none of them

struct Setting {
  std::string file;
  std::string value;
  bool is_optional = false;  // not everywhere: without accounting of swap
};

// The limit is of memory and swap together: a proc that reaches it ends instead of going on slowly.
std::vector<Setting> settings_for(const GroupLimits& limits, Controller controller, int version) {
  const std::string memory = std::to_string(limits.memory);
  const std::string quota = std::to_string(limits.cpu_milli * kPeriodUs / 1000);
  switch (controller) {
    case Controller::memory:
      if (version == 1)
        return {{"memory.limit_in_bytes", memory}, {"memory.memsw.limit_in_bytes", memory, true}};
      return {
          {"memory.max", memory}, {"memory.swap.max", "0", true}, {"memory.oom.group", "1", true}};
    case Controller::pids: return {{"pids.max", std::to_string(limits.pids)}};
    case Controller::cpu:
      if (version == 1)
        return {{"cpu.cfs_period_us", std::to_string(kPeriodUs)}, {"cpu.cfs_quota_us", quota}};
      return {{"cpu.max", quota + " " + std::to_string(kPeriodUs)}};
  }
  return {};
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The number behind a word in a file of such pairs.
std::optional<std::uint64_t> read_number(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string key;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == word) return value;
  }
  return std::nullopt;
}

std::string group_name(std::uint64_t id) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "/proc-%016llx", static_cast<unsigned long long>(id));
  return text.data();
}

// cgroup v2: what is below that directory may be limited by this controller. Returns 0 or an errno.
int let_control(const std::string& directory, Controller controller) {
  const std::string word(to_string(controller));
  const std::string path = directory + "/cgroup.subtree_control";
  return has_word(path, word) ? 0 : write_file(path, "+" + word);
}

}  // namespace

bool LimitGroups::make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0) return errno == EEXIST;
  made_.push_back(path);
  return true;
}

tl::expected<std::string, SpawnFailure> LimitGroups::make_group(std::uint64_t id,
                                                                const GroupLimits& limits,
                                                                Controller controller,
                                                                const std::string& parent) {
  const LimitPlace& place = places_.at(controller);
  const auto failed = [&](int error, const std::string& file) {
    return tl::unexpected(
        SpawnFailure{SpawnStage::cgroup, error, words_of(limits, controller) + ": " + file});
  };
  if (place.version == 0) return failed(0, place.path);
  if (!make_directory(place.path)) return failed(errno, place.path);
  const std::string& above = place.version == 2 && !parent.empty() ? parent : place.path;
  if (place.version == 2) {
    for (const std::string& directory : {place.path, above}) {
      if (const int error = let_control(directory, controller); error != 0)
        return failed(error, directory + "/cgroup.subtree_control");
    }
  }
  std::string path = above + group_name(id);
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed(errno, path);
  for (const Setting& setting : settings_for(limits, controller, place.version)) {
    const int error = write_file(path + "/" + setting.file, setting.value);
    if (error == 0 || (error == ENOENT && setting.is_optional)) continue;
    ::rmdir(path.c_str());
    return failed(error, "writing " + setting.value + " to " + path + "/" + setting.file);
  }
  return path;
}

tl::expected<ProcGroups, SpawnFailure> LimitGroups::make(std::uint64_t id,
                                                         const GroupLimits& limits,
                                                         const std::string& parent) {
  ProcGroups made;
  for (const Controller controller : kControllers) {
    if (words_of(limits, controller).empty()) continue;
    auto path = make_group(id, limits, controller, parent);
    if (!path) {
      remove(id);
      return tl::unexpected(std::move(path.error()));
    }
    const int version = places_.at(controller).version;
    groups_[id].push_back({controller, version, *path});
    // All that v2 limits is in one directory.
    if (version == 2 && made.cgroup) continue;
    const std::string file = version == 2 ? *path : join_file_v1(*path);
    UniqueFd opened(
        ::open(file.c_str(), (version == 2 ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC));
    if (!opened) {
      const int error = errno;
      remove(id);
      return tl::unexpected(
          SpawnFailure{SpawnStage::cgroup, error, words_of(limits, controller) + ": " + file});
    }
    if (version == 2) {
      made.cgroup = std::move(opened);
    } else {
      made.joins.push_back(std::move(opened));
    }
  }
  return made;
}

MemoryVerdict LimitGroups::memory_verdict(std::uint64_t id) const {
  const auto known = groups_.find(id);
  if (known == groups_.end()) return {};
  for (const Group& group : known->second) {
    if (group.controller != Controller::memory) continue;
    const std::string events =
        group.path + (group.version == 1 ? "/memory.oom_control" : "/memory.events");
    MemoryVerdict verdict;
    verdict.kills = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(read_number(events, "oom_kill").value_or(0), UINT32_MAX));
    if (group.version == 2) {
      verdict.by_own_limit = read_number(events, "oom").value_or(0) != 0;
    } else {
      // Linux 6.18 no longer counts in memory.failcnt.
      const auto peak = read_number(group.path + "/memory.max_usage_in_bytes");
      const auto limit = read_number(group.path + "/memory.limit_in_bytes");
      verdict.by_own_limit = peak && limit && *peak + kLimitSlack >= *limit;
    }
    return verdict;
  }
  return {};
}

void LimitGroups::remove(std::uint64_t id) {
  const auto known = groups_.find(id);
  if (known == groups_.end()) return;
  for (const Group& group : known->second) {
    if (remove_cgroup_tree(group.path)) continue;
    // A process was moved in from elsewhere.
    kill_listed(group.path);
    remove_cgroup_tree(group.path);
  }
  groups_.erase(known);
  if (!groups_.empty()) return;
  // Those that others use, too, do not go by this.
  for (const std::string& path : made_) ::rmdir(path.c_str());
  made_.clear();
}

void LimitGroups::remove_all() {
  while (!groups_.empty()) remove(groups_.begin()->first);
}

}  // namespace meshbus::os
