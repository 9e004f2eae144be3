#include "agent/hands/rank_place.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/hands/cgroup_lines.h"
#include "agent/os/cgroup.h"
#include "common/base/os_error.h"

namespace meshbus::hands {
namespace {

/// An environment is at most a quarter of a stack: some MiB.
constexpr std::size_t kMostText = 16U << 20U;

struct Kind {
  const char* name;
  int type;
};
/// In the order in which they are joined: the user namespace gives the rights for the others, and
/// with another mount namespace the file system is another one. The pid namespace is the rank's
/// already: no process leaves that of its parent, the keeper.
constexpr Kind kKinds[] = {
    {"user", CLONE_NEWUSER}, {"cgroup", CLONE_NEWCGROUP}, {"ipc", CLONE_NEWIPC},
    {"uts", CLONE_NEWUTS},   {"net", CLONE_NEWNET},       {"time", 0x80},
    {"mnt", CLONE_NEWNS},
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 16384> piece{};
  while (text.size() < kMostText) {
    const auto n = ::read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
  return text;
}

Result<std::string> read_at(int directory, const char* name) {
  const UniqueFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC));
  if (!file) return fail(ErrorCode::io_error, os_error(name));
  return read_all(file.get());
}

std::string read_own(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  return file ? read_all(file.get()) : std::string();
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// What errno says of the last call.
Error look_error(const std::string& what) {
  const auto code = errno == EACCES || errno == EPERM   ? ErrorCode::unauthorised
                    : errno == ENOENT || errno == ESRCH ? ErrorCode::not_exist
                                                        : ErrorCode::io_error;
  return {code, os_error(what)};
}

}  // namespace

Result<RankPlace> RankPlace::open(const Target& target) {
  RankPlace place;
  const std::string path = "/proc/" + std::to_string(target.pid);
  place.proc_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.proc_) return fail(look_error("process " + std::to_string(target.pid)));
  const int proc = place.proc_.get();
  const auto stat = read_at(proc, "stat");
  const auto ticks = stat ? parse_start_ticks(*stat) : std::nullopt;
  if (!ticks || *ticks != target.start_ticks)
    return fail(ErrorCode::not_exist, "process " + std::to_string(target.pid) + " has ended");
  if (auto opened = place.open_namespaces(); !opened) return fail(opened.error());
  place.root_ = UniqueFd(::openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.root_) return fail(look_error("its root directory"));
  place.directory_ = UniqueFd(::openat(proc, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.directory_) return fail(look_error("its working directory"));
  auto cgroups = read_at(proc, "cgroup");
  if (!cgroups) return fail(cgroups.error());
  place.cgroups_ = std::move(*cgroups);
  auto environment = read_at(proc, "environ");
  if (!environment) return fail(look_error("its environment"));
  for (std::string_view rest = *environment; !rest.empty();) {
    const auto end = std::min(rest.find('\0'), rest.size());
    if (end > 0) place.environment_.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto limits = read_at(proc, "limits");
  if (!limits) return fail(limits.error());
  place.limits_ = parse_limits(*limits);
  errno = 0;
  if (const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(target.pid)); errno == 0)
    place.nice_ = nice;
  place.has_cpus_ = ::sched_getaffinity(target.pid, sizeof place.cpus_, &place.cpus_) == 0;
  if (auto read = place.read_user(); !read) return fail(read.error());
  return place;
}

Result<void> RankPlace::open_namespaces() {
  for (const Kind& kind : kKinds) {
    const std::string name = std::string("ns/") + kind.name;
    Namespace one{kind.name, kind.type, {}};
    one.fd = UniqueFd(::openat(proc_.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat own{};
    struct stat other{};
    const bool has_own = ::stat(("/proc/self/" + name).c_str(), &own) == 0;
    if (!one.fd) {
      if (errno == ENOENT && !has_own) continue;  // a kernel without it
      return fail(look_error(std::string("its ") + kind.name + " namespace"));
    }
    if (has_own && ::fstat(one.fd.get(), &other) == 0 && is_same_file(own, other)) continue;
    namespaces_.push_back(std::move(one));
  }
  return {};
}

Result<void> RankPlace::read_user() {
  const auto status = read_at(proc_.get(), "status");
  const auto user = status ? parse_status(*status) : std::nullopt;
  if (!user) return fail(ErrorCode::not_exist, "its user cannot be read");
  user_ = *user;
  return {};
}

Result<void> RankPlace::join_cgroups() const {
  const std::string mounts = read_own("/proc/self/mountinfo");
  const auto ours = parse_cgroups(read_own("/proc/self/cgroup"));
  for (const CgroupLine& cgroup : parse_cgroups(cgroups_)) {
    const auto own = std::find_if(ours.begin(), ours.end(), [&](const CgroupLine& one) {
      return one.controllers == cgroup.controllers;
    });
    if (own != ours.end() && own->path == cgroup.path) continue;
    const auto directory = find_cgroup_directory(mounts, cgroup);
    if (!directory)
      return fail(ErrorCode::io_error, "cgroup " + cgroup.controllers + ":" + cgroup.path +
                                           " cannot be joined: it is not mounted here");
    const std::string file =
        cgroup.is_v2() ? *directory + "/cgroup.procs" : os::join_file_v1(*directory);
    if (const int error = os::write_file(file, "0"); error != 0)
      return fail(ErrorCode::io_error,
                  "cgroup " + *directory + " cannot be joined: " + std::strerror(error));
  }
  return {};
}

Result<void> RankPlace::go_to_directories() const {
  struct stat wanted{};
  struct stat own{};
  if (::fstat(root_.get(), &wanted) != 0) return fail(ErrorCode::io_error, os_error("its root"));
  if (::stat("/", &own) != 0 || !is_same_file(wanted, own)) {
    if (::fchdir(root_.get()) != 0 || ::chroot(".") != 0)
      return fail(ErrorCode::io_error, os_error("its root directory"));
  }
  if (::fchdir(directory_.get()) != 0)
    return fail(ErrorCode::io_error, os_error("its working directory"));
  return {};
}

Result<void> RankPlace::enter() {
  if (auto joined = join_cgroups(); !joined) return joined;
  for (const Namespace& one : namespaces_) {
    if (::setns(one.fd.get(), one.type) != 0)
      return fail(ErrorCode::io_error, os_error(std::string("its ") + one.name + " namespace"));
    // The numbers of users are other ones there.
    if (one.type == CLONE_NEWUSER) {
      if (auto read = read_user(); !read) return read;
    }
  }
  return go_to_directories();
}

Result<void> RankPlace::become_user() const {
  // What cannot be raised stays lower than the rank has it.
  for (const ProcessLimit& limit : limits_) {
    const rlimit wanted{static_cast<rlim_t>(limit.soft), static_cast<rlim_t>(limit.hard)};
    ::setrlimit(static_cast<__rlimit_resource>(limit.resource), &wanted);
  }
  if (nice_) ::setpriority(PRIO_PROCESS, 0, *nice_);
  if (has_cpus_) ::sched_setaffinity(0, sizeof cpus_, &cpus_);

  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  if (!groups.empty() && ::getgroups(static_cast<int>(groups.size()), groups.data()) < 0)
    groups.clear();
  auto wanted = user_.groups;
  std::sort(groups.begin(), groups.end());
  std::sort(wanted.begin(), wanted.end());
  if (groups != wanted && ::setgroups(user_.groups.size(), user_.groups.data()) != 0)
    return fail(ErrorCode::io_error, os_error("its groups"));
  const auto& [group, effective_group, saved_group] = user_.user_groups;
  if (::setresgid(group, effective_group, saved_group) != 0)
    return fail(ErrorCode::io_error, os_error("its group " + std::to_string(effective_group)));
  const auto& [user, effective_user, saved_user] = user_.users;
  if (::setresuid(user, effective_user, saved_user) != 0)
    return fail(ErrorCode::io_error, os_error("its user " + std::to_string(effective_user)));
  ::umask(user_.umask);
  if (user_.has_no_new_privs && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(ErrorCode::io_error, os_error("no_new_privs"));
  // Another user undoes it.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    return fail(ErrorCode::io_error, os_error("PR_SET_PDEATHSIG"));
  return {};
}

}  // namespace meshbus::hands
