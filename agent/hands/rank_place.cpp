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

/// What a file that is open says now.
std::string read_again(int fd) {
  return ::lseek(fd, 0, SEEK_SET) == 0 ? read_all(fd) : std::string();
}

Error changed() {
  return {ErrorCode::refused, "it has become another program or user just now; try again"};
}

/// A command would get rights that nobody gave the rank, or escape filters that it is under.
Result<void> check_rights(const ProcessUser& user, bool is_secure) {
  if (is_secure || !user.has_one_user())
    return fail(ErrorCode::refused,
                "it runs a program with the rights of another user or with capabilities of the "
                "file (setuid): a command would get these rights, too");
  const auto own = parse_status(read_own("/proc/self/status"));
  if (user.is_filtered && (!own || !own->is_filtered || user.filters > own->filters))
    return fail(ErrorCode::refused,
                "it is under a filter of system calls (seccomp), which a command would escape");
  return {};
}

}  // namespace

Result<RankPlace> RankPlace::open(const Target& target) {
  RankPlace place;
  const std::string path = "/proc/" + std::to_string(target.pid);
  place.proc_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.proc_) return fail(look_error("process " + std::to_string(target.pid)));
  const int proc = place.proc_.get();
  place.status_ = UniqueFd(::openat(proc, "status", O_RDONLY | O_CLOEXEC));
  const auto before = place.look();
  if (!before) return fail(before.error());
  if (before->start_ticks != target.start_ticks)
    return fail(ErrorCode::not_exist, "process " + std::to_string(target.pid) + " has ended");
  if (auto checked = check_rights(before->user, before->is_secure); !checked)
    return fail(checked.error());
  if (auto opened = place.open_namespaces(); !opened) return fail(opened.error());
  place.root_ = UniqueFd(::openat(proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.root_) return fail(look_error("its root directory"));
  place.directory_ = UniqueFd(::openat(proc, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place.directory_) return fail(look_error("its working directory"));
  auto cgroups = read_at(proc, "cgroup");
  if (!cgroups) return fail(cgroups.error());
  place.cgroups_ = std::move(*cgroups);
  if (auto read = place.read_environment(); !read) return fail(read.error());
  if (auto read = place.read_limits(target.pid); !read) return fail(read.error());
  // The environment and the user are those of one program.
  const auto after = place.look();
  if (!after) return fail(after.error());
  if (*after != *before) return fail(changed());
  place.user_ = after->user;
  return place;
}

Result<RankPlace::Look> RankPlace::look() const {
  const auto stat = read_at(proc_.get(), "stat");
  const auto ticks = stat ? parse_start_ticks(*stat) : std::nullopt;
  if (!ticks) return fail(ErrorCode::not_exist, "it has ended");
  const auto auxv = read_at(proc_.get(), "auxv");
  if (!auxv) return fail(look_error("its auxiliary vector"));
  if (auxv->empty()) return fail(ErrorCode::not_exist, "it has ended");
  auto user = parse_status(read_again(status_.get()));
  if (!user) return fail(ErrorCode::not_exist, "its user cannot be read");
  return Look{*ticks, std::move(*user), is_secure_execution(*auxv)};
}

Result<void> RankPlace::read_environment() {
  const auto environment = read_at(proc_.get(), "environ");
  if (!environment) return fail(look_error("its environment"));
  for (std::string_view rest = *environment; !rest.empty();) {
    const auto end = std::min(rest.find('\0'), rest.size());
    if (end > 0) environment_.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

Result<void> RankPlace::read_limits(pid_t pid) {
  const auto limits = read_at(proc_.get(), "limits");
  if (!limits) return fail(limits.error());
  limits_ = parse_limits(*limits);
  errno = 0;
  if (const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(pid)); errno == 0)
    nice_ = nice;
  has_cpus_ = ::sched_getaffinity(pid, sizeof cpus_, &cpus_) == 0;
  return {};
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

/// The numbers of users are other ones in the user namespace that we are in now.
Result<void> RankPlace::read_user_inside() {
  const auto status = read_at(proc_.get(), "status");
  auto user = status ? parse_status(*status) : std::nullopt;
  // Opened outside, this one has the numbers from there: they have to be those that were checked.
  const auto outside = parse_status(read_again(status_.get()));
  if (!user || !outside) return fail(ErrorCode::not_exist, "its user cannot be read");
  if (*outside != user_ || !user->has_one_user()) return fail(changed());
  user_ = std::move(*user);
  return {};
}

bool RankPlace::joins_user_namespace() const {
  return std::any_of(namespaces_.begin(), namespaces_.end(),
                     [](const Namespace& one) { return one.type == CLONE_NEWUSER; });
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

Result<void> RankPlace::take_groups() const {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  if (!groups.empty() && ::getgroups(static_cast<int>(groups.size()), groups.data()) < 0)
    groups.clear();
  auto wanted = user_.groups;
  std::sort(groups.begin(), groups.end());
  std::sort(wanted.begin(), wanted.end());
  if (groups != wanted && ::setgroups(user_.groups.size(), user_.groups.data()) != 0)
    return fail(ErrorCode::io_error, os_error("its groups"));
  return {};
}

Result<void> RankPlace::join_namespaces() {
  // Inside of a user namespace two groups that have no number there look the same.
  const auto grouped = take_groups();
  if (!grouped && !joins_user_namespace()) return grouped;
  for (const Namespace& one : namespaces_) {
    if (::setns(one.fd.get(), one.type) != 0)
      return fail(ErrorCode::io_error, os_error(std::string("its ") + one.name + " namespace"));
    if (one.type != CLONE_NEWUSER) continue;
    if (auto read = read_user_inside(); !read) return read;
    if (!grouped && ::setgroups(user_.groups.size(), user_.groups.data()) != 0)
      return fail(ErrorCode::io_error, os_error("its groups"));
  }
  return {};
}

Result<void> RankPlace::enter() {
  if (auto joined = join_cgroups(); !joined) return joined;
  if (auto joined = join_namespaces(); !joined) return joined;
  return go_to_directories();
}

Result<void> RankPlace::settle() const {
  // What cannot be raised stays lower than the rank has it.
  for (const ProcessLimit& limit : limits_) {
    const rlimit wanted{static_cast<rlim_t>(limit.soft), static_cast<rlim_t>(limit.hard)};
    ::setrlimit(static_cast<__rlimit_resource>(limit.resource), &wanted);
  }
  if (nice_) ::setpriority(PRIO_PROCESS, 0, *nice_);
  if (has_cpus_) ::sched_setaffinity(0, sizeof cpus_, &cpus_);
  return become_user();
}

Result<void> RankPlace::become_user() const {
  const gid_t group = user_.user_groups[0];
  const uid_t user = user_.users[0];
  Capabilities wanted = user_.capabilities;
  // Root gets its whole bounding set with the next program.
  if (user == 0) wanted.bounding &= wanted.permitted;
  if (auto lowered = lower_bounds(wanted); !lowered) return lowered;
  if (::setresgid(group, group, group) != 0)
    return fail(ErrorCode::io_error, os_error("its group " + std::to_string(group)));
  if (::setresuid(user, user, user) != 0)
    return fail(ErrorCode::io_error, os_error("its user " + std::to_string(user)));
  if (auto lowered = lower_capabilities(wanted); !lowered) return lowered;
  ::umask(user_.umask);
  if (user_.has_no_new_privs && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(ErrorCode::io_error, os_error("no_new_privs"));
  // Another user undoes it.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    return fail(ErrorCode::io_error, os_error("PR_SET_PDEATHSIG"));
  return {};
}

}  // namespace meshbus::hands
