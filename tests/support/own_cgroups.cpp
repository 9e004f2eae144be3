#include "tests/support/own_cgroups.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "tests/support/wait.h"

namespace meshbus::test {

namespace fs = std::filesystem;

namespace {

constexpr const char* prefix = "meshbus-test-";

std::vector<fs::path>& known() {
  static std::vector<fs::path> paths;
  return paths;
}

bool is_listed(const std::string& word, const std::string& list) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

/// Where this process is in the hierarchy of v1 with this controller, or in v2 (empty).
std::optional<fs::path> own_directory(const std::string& controller) {
  std::string point;
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, where, type, options;
    fields >> device >> where >> type >> options;
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && is_listed(controller, options))
      point = where;
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; !point.empty() && std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? !names.empty() : !is_listed(controller, names)) continue;
    fs::path path = point + line.substr(second + 1);
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return path;
  }
  return std::nullopt;
}

bool move_to(const fs::path& directory) {
  return static_cast<bool>(std::ofstream(directory / "cgroup.procs") << ::getpid() << std::flush);
}

void add_below(const fs::path& top, std::set<fs::path>& found) {
  std::error_code ignored;
  std::vector<fs::path> inner;
  for (auto at = fs::directory_iterator(top, ignored); at != fs::directory_iterator();
       at.increment(ignored)) {
    std::error_code gone;
    if (at->is_directory(gone)) inner.push_back(at->path());
  }
  for (const auto& path : inner) {
    found.insert(path);
    add_below(path, found);
  }
}

/// Those of v2 by which something can be limited.
std::vector<std::string> controllers_of(const fs::path& cgroup) {
  std::vector<std::string> found;
  std::ifstream available(cgroup / "cgroup.controllers");
  for (std::string word; available >> word;) {
    if (word == "memory" || word == "pids" || word == "cpu") found.push_back(word);
  }
  return found;
}

/// cgroup v2 lets what is below a cgroup be limited only when no process is in it.
bool hand_on_controllers(const fs::path& cgroup) {
  bool all = true;
  for (const auto& word : controllers_of(cgroup))
    all = static_cast<bool>(std::ofstream(cgroup / "cgroup.subtree_control")
                            << "+" << word << std::flush) &&
          all;
  return all;
}

bool remove_tree(const fs::path& top) {
  std::set<fs::path> below;
  add_below(top, below);
  for (auto path = below.rbegin(); path != below.rend(); ++path) ::rmdir(path->c_str());
  return ::rmdir(top.c_str()) == 0 || errno == ENOENT;
}

/// Removes the cgroups of test programs that were killed.
void remove_abandoned(const fs::path& parent) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (auto at = fs::directory_iterator(parent, ignored); at != fs::directory_iterator();
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(prefix) &&
        ::kill(std::atoi(name.c_str() + std::string(prefix).size()), 0) != 0 && errno == ESRCH)
      found.push_back(at->path());
  }
  for (const auto& path : found) remove_tree(path);
}

}  // namespace

OwnCgroups::OwnCgroups() {
  for (const char* controller : {"memory", "pids", ""}) {
    const auto parent = own_directory(controller);
    // Below another test program it is that one's business.
    if (!parent || parent->string().find(std::string("/") + prefix) != std::string::npos) continue;
    remove_abandoned(*parent);
    const fs::path path = *parent / (prefix + std::to_string(::getpid()));
    if (::mkdir(path.c_str(), 0755) != 0) continue;
    const fs::path own = controllers_of(path).empty() ? path : path / "self";
    if (own != path) ::mkdir(own.c_str(), 0755);
    if (move_to(own) && hand_on_controllers(path)) {
      made_.push_back(path);
      known().push_back(path);
    } else {
      move_to(*parent);
      remove_tree(path);
    }
  }
}

void OwnCgroups::leave() {
  for (const auto& path : made_) {
    move_to(path.parent_path());
    ::rmdir((path / "self").c_str());
    // A process that has just ended is still in it for a moment.
    wait_until([&] { return remove_tree(path); }, std::chrono::seconds(2));
  }
  made_.clear();
  known().clear();
}

void remove_empty_host_cgroups() {
  for (const auto& own : known()) {
    std::vector<fs::path> hosts;
    std::error_code ignored;
    for (auto at = fs::directory_iterator(own, ignored); at != fs::directory_iterator();
         at.increment(ignored)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with("meshbus-") && name.size() == 16 &&
          name.find_first_not_of("0123456789abcdef", 8) == std::string::npos)
        hosts.push_back(at->path());
    }
    for (const auto& host : hosts) remove_tree(host);
  }
}

std::set<fs::path> cgroups_below_own() {
  std::set<fs::path> found;
  for (const auto& path : known()) add_below(path, found);
  return found;
}

}  // namespace meshbus::test
