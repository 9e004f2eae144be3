#include "agent/os/cgroup_placement.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "agent/os/cgroup.h"
#include "agent/os/limit_places.h"
#include "common/base/os_error.h"
#include "common/base/unique_fd.h"

namespace meshbus::os {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kRolesName = "/meshbus-roles";
constexpr auto kLockLimit = 1s;
constexpr auto kNeighbourLimit = 500ms;  // a host that ends beside us is in `base` for a moment

std::string parent_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

bool is_real_root(const std::string& directory) {
  return ::access((directory + "/cgroup.type").c_str(), F_OK) != 0;
}

// "…/meshbus-1f00c2ab": what a host contains stays in there.
bool is_hosts_own(const std::string& path) {
  constexpr std::string_view prefix = "/meshbus-";
  const auto at = path.rfind('/');
  return at != std::string::npos && path.compare(at, prefix.size(), prefix) == 0 &&
         path.size() == at + prefix.size() + 8 &&
         path.find_first_not_of("0123456789abcdef", at + prefix.size()) == std::string::npos;
}

std::vector<std::string> available_in(const std::string& directory) {
  std::vector<std::string> found;
  for (const Controller controller : kControllers) {
    const std::string word(to_string(controller));
    if (has_word(directory + "/cgroup.controllers", word)) found.push_back(word);
  }
  return found;
}

bool hands_on(const std::string& directory, const std::vector<std::string>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
    return has_word(directory + "/cgroup.subtree_control", word);
  });
}

// The pids in it; 0 is a process that our pid namespace does not show.
std::vector<pid_t> members_of(const std::string& directory) {
  std::vector<pid_t> found;
  std::ifstream file(directory + "/cgroup.procs");
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

std::string name_some(const std::vector<pid_t>& pids) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < most; ++i) {
    const std::string who =
        pids[i] == 0 ? "one outside of our pid namespace" : std::to_string(pids[i]);
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pids[i]) + "/comm"), name);
    // A process calls itself what it likes.
    std::replace_if(
        name.begin(), name.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    text += (i == 0 ? "" : ", ") + who + (name.empty() ? "" : " " + name);
  }
  return text + (pids.size() > most ? ", and " + std::to_string(pids.size() - most) + " more" : "");
}

std::string crowded(const std::string& base, const std::vector<pid_t>& others) {
  return base + " has other processes than this host's, which are not ours to move (" +
         name_some(others) +
         "), and cgroup v2 hands no controllers on below a cgroup that has processes itself";
}

// For root in a foreign cgroup: the nearest one above that hands on all there is, so that what
// holds for us up there holds for procs, too; nothing is changed in it. The real root may hand on
// what it does not yet: processes in it do not matter.
std::string find_elsewhere(const CgroupView& view) {
  const auto wanted = available_in(view.top);
  if (!view.may_leave || wanted.empty()) return {};
  for (std::string at = view.own; at.size() > view.top.size() && !is_hosts_own(at);) {
    at = parent_of(at);
    const bool serves = hands_on(at, wanted) || (at == view.top && is_real_root(at));
    if (serves && ::access(at.c_str(), W_OK) == 0) return at;
  }
  return {};
}

// Keeps a host from taking away what another is about to use. A lock that is held for long is not
// waited for.
UniqueFd lock_base(const std::string& base) {
  UniqueFd directory(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto until = Clock::now() + kLockLimit;
  while (directory && ::flock(directory.get(), LOCK_EX | LOCK_NB) != 0 && Clock::now() < until)
    ::poll(nullptr, 0, 1);
  return directory;
}

int enter(const std::string& cgroup) {
  return write_file(cgroup + "/cgroup.procs", "0");
}

// What is below may be limited by these, as far as that can be. Returns 0 or the errno of the first
// that could not.
int let_use(const std::string& directory, const std::vector<std::string>& wanted) {
  int first = 0;
  for (const std::string& word : wanted) {
    if (has_word(directory + "/cgroup.subtree_control", word)) continue;
    const int error = write_file(directory + "/cgroup.subtree_control", "+" + word);
    if (first == 0) first = error;
  }
  return first;
}

bool lets_use_one(const std::string& directory, const std::vector<std::string>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
    return has_word(directory + "/cgroup.subtree_control", word);
  });
}

// False: one of them is still needed, by another host or by a foreign cgroup in there.
bool take_back(const std::string& base) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && entry->path() != roles_leaf(base)) return false;
  }
  std::vector<std::string> enabled;
  std::ifstream file(base + "/cgroup.subtree_control");
  for (std::string word; file >> word;) enabled.push_back(word);
  bool all = true;
  for (const std::string& word : enabled)
    all = write_file(base + "/cgroup.subtree_control", "-" + word) == 0 && all;
  return all;
}

void remove_leaf(const std::string& leaf, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (::rmdir(leaf.c_str()) != 0 && errno == EBUSY && Clock::now() < until)
    ::poll(nullptr, 0, 1);
}

}  // namespace

std::string roles_leaf(const std::string& base) {
  return base + std::string(kRolesName);
}

Result<CgroupView> view_cgroups() {
  auto own = find_own_cgroup();
  if (!own) return fail(own.error());
  return CgroupView{own->path, own->top, ::getpid(), ::geteuid() == 0};
}

CgroupPlacement plan_cgroup_placement(const CgroupView& view) {
  CgroupPlacement place;
  place.base = view.own;
  // The parent is in the leaf already: a launcher, or a shell that came in by `docker exec`.
  if (view.own.ends_with(kRolesName)) {
    place.base = parent_of(view.own);
    return place;
  }
  if (is_real_root(place.base)) return place;
  if (::access(place.base.c_str(), W_OK) != 0) {
    place.problem = os_error("cannot make a cgroup in " + place.base);
  } else {
    auto others = members_of(place.base);
    std::erase(others, view.self);
    place.enters_roles_leaf = others.empty() && !available_in(place.base).empty();
    if (others.empty()) return place;
    place.problem = crowded(place.base, others);
  }
  if (auto elsewhere = find_elsewhere(view); !elsewhere.empty()) {
    place = {std::move(elsewhere), {}, false};
  }
  return place;
}

CgroupPlacement plan_cgroup_placement() {
  const auto view = view_cgroups();
  if (!view) return {{}, view.error().detail(), false};
  return plan_cgroup_placement(*view);
}

Result<void> enter_roles_leaf(const CgroupPlacement& place) {
  if (!place.enters_roles_leaf) return {};
  const std::string leaf = roles_leaf(place.base);
  const UniqueFd lock = lock_base(place.base);
  if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST)
    return fail(ErrorCode::io_error, os_error("mkdir " + leaf));
  const int error = enter(leaf);
  if (error == 0) return {};
  ::rmdir(leaf.c_str());
  errno = error;
  return fail(ErrorCode::io_error, os_error("moving into " + leaf));
}

Result<void> make_limiting_cgroup(const CgroupPlacement& place, const std::string& path) {
  const auto wanted = available_in(place.base);
  const auto failed = [](int error, const std::string& what) {
    errno = error;
    return fail(ErrorCode::io_error, os_error(what));
  };
  UniqueFd lock = lock_base(place.base);
  int error = let_use(place.base, wanted);
  for (const auto until = Clock::now() + kNeighbourLimit; error == EBUSY && Clock::now() < until;) {
    lock.reset();
    ::poll(nullptr, 0, 5);
    lock = lock_base(place.base);
    error = let_use(place.base, wanted);
  }
  if (error == EBUSY) return fail(ErrorCode::io_error, crowded(place.base, members_of(place.base)));
  if (!lets_use_one(place.base, wanted))
    return failed(error, "writing to " + place.base + "/cgroup.subtree_control");
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failed(errno, "mkdir " + path);
  error = let_use(path, wanted);
  if (lets_use_one(path, wanted)) return {};
  ::rmdir(path.c_str());
  return failed(error, "writing to " + path + "/cgroup.subtree_control");
}

void leave_roles_leaf(std::chrono::milliseconds limit) {
  const auto own = find_own_cgroup();
  if (!own || !own->path.ends_with(kRolesName)) return;
  const std::string base = parent_of(own->path);
  {
    const UniqueFd lock = lock_base(base);
    if (!take_back(base) || enter(base) != 0) return;
  }
  remove_leaf(own->path, limit);
}

void clear_roles_leaf(const std::string& base) {
  const std::string leaf = roles_leaf(base);
  if (::access(leaf.c_str(), F_OK) != 0) return;
  const UniqueFd lock = lock_base(base);
  // A host that has its roles in it needs the controllers, or will need them.
  if (members_of(leaf).empty() && take_back(base)) remove_leaf(leaf, 50ms);
}

RolesLeafScope::RolesLeafScope(bool is_wanted) {
  // What goes wrong here the host says better, when it is asked for limits.
  if (is_wanted) [[maybe_unused]]
    const auto done = enter_roles_leaf(plan_cgroup_placement());
}

}  // namespace meshbus::os
