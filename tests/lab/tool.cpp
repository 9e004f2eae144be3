// meshbus_lab_tool: what a lab (lab.h) needs processes for. Linux namespaces end with their last
// process, so everything of a lab hangs from one process that the kernel kills when its keeper
// dies; only directories have to be removed by somebody.
//
//   hold ROOM CGROUP|-                        keeps a lab until its stdin ends, then removes it,
//   the room and the cgroup too boot LAB CGROUP|- NAME ROOM               makes a host of that lab
//   and prints its pid enter HOST CGROUP|- PROGRAM ARGUMENTS...  runs a program in a host, passes
//   signals on and ends as the program does
//
// LAB and HOST are pids of the first process of each, as the caller sees them; CGROUP is a
// directory, or - for none; ROOM is an empty directory, which every host sees a file system of its
// own in.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int own_namespaces = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC;
/// So long the holder waits for the cgroups of dead processes to become empty.
constexpr int most_removal_tries = 2000;
constexpr unsigned between_tries_us = 5000;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "meshbus_lab_tool: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(125);
}

/// Forks; the child is process 1 of a new pid namespace and in new namespaces of the other kinds.
pid_t fork_with_namespaces(int flags) {
  const long pid =
      ::syscall(SYS_clone, flags | CLONE_NEWPID | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid < 0) die("clone with new namespaces");
  return static_cast<pid_t>(pid);
}

/// What a process 1 does: live, and reap orphans (the kernel does that when nobody wants to know of
/// them).
[[noreturn]] void be_init(const char* name) {
  ::prctl(PR_SET_NAME, name);
  ::signal(SIGCHLD, SIG_IGN);
  for (const int one : {SIGINT, SIGTERM, SIGHUP}) ::signal(one, SIG_IGN);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  ::close_range(3, ~0U, 0);
  for (;;) ::pause();
}

void join_namespaces(const char* pid, int flags) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, std::atoi(pid), 0));
  if (fd < 0) die(std::string("no such host or lab: pid ") + pid);
  // When all of this happens in a chroot, its root is not that of its mount namespace.
  const int root =
      ::open(("/proc/" + std::string(pid) + "/root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) die(std::string("open the root of pid ") + pid);
  if (::setns(fd, flags) != 0) die(std::string("enter the namespaces of pid ") + pid);
  if ((flags & CLONE_NEWNS) != 0 && (::fchdir(root) != 0 || ::chroot(".") != 0))
    die(std::string("enter the root of pid ") + pid);
  ::close(root);
  ::close(fd);
}

/// Opens the cgroup's list of processes, before the file systems change; -1 for none.
int open_cgroup(std::string_view directory) {
  if (directory == "-") return -1;
  const std::string path = std::string(directory) + "/cgroup.procs";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) die("open " + path);
  return fd;
}

void join_cgroup(int procs) {
  if (procs >= 0 && ::write(procs, "0", 1) != 1) die("join the host's cgroup");
}

// --- hold
// ------------------------------------------------------------------------------------------------

/// Removes a cgroup with those below it; false as long as somebody is in one of them.
bool remove_cgroup(const std::string& path) {
  if (DIR* directory = ::opendir(path.c_str())) {
    while (const dirent* entry = ::readdir(directory)) {
      if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
        remove_cgroup(path + "/" + entry->d_name);
    }
    ::closedir(directory);
  }
  return ::rmdir(path.c_str()) == 0 || errno == ENOENT;
}

bool remove_cgroup_in_time(const std::string& path) {
  for (int i = 0; i < most_removal_tries; ++i) {
    if (remove_cgroup(path)) return true;
    ::usleep(between_tries_us);  // sleep-ok: nothing tells when a cgroup may be removed; this is
                                 // the wait
  }
  std::fprintf(stderr, "meshbus_lab_tool: the cgroup %s cannot be removed: %s\n", path.c_str(),
               std::strerror(errno));
  return false;
}

bool remove_room(const std::string& room) {
  ::unlink((room + "/hosts").c_str());
  if (::rmdir(room.c_str()) == 0 || errno == ENOENT) return true;
  std::fprintf(stderr, "meshbus_lab_tool: %s cannot be removed: %s\n", room.c_str(),
               std::strerror(errno));
  return false;
}

int hold(const std::string& room, const std::string& cgroup) {
  ::prctl(PR_SET_PDEATHSIG, 0);  // we must outlive our parent, to clean up
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(one, SIG_IGN);
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) die("pipe");
  const pid_t init = fork_with_namespaces(own_namespaces);
  if (init == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      die("make mounts private");
    if (::write(ready[1], "", 1) != 1) die("write");
    be_init("lab-init");
  }
  ::close(ready[1]);
  char byte = 0;
  if (::read(ready[0], &byte, 1) != 1) return 125;  // it has said why
  std::printf("%d\n", init);
  std::fflush(stdout);

  while (::read(0, &byte, 1) != 0) {
  }
  ::kill(init, SIGKILL);
  // Returns when everything in the lab's pid namespace, and in those below it, is dead and reaped.
  while (::waitpid(init, nullptr, 0) < 0 && errno == EINTR) {
  }
  const bool is_cgroup_gone = cgroup == "-" || remove_cgroup_in_time(cgroup);
  return remove_room(room) && is_cgroup_gone ? 0 : 1;
}

// --- boot
// ------------------------------------------------------------------------------------------------

/// A /sys that shows the host's own network cards, and the cgroups as before.
void mount_sys(const std::string& place) {
  if (::mkdir(place.c_str(), 0700) != 0) die("mkdir " + place);
  if (::mount("sysfs", place.c_str(), "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    die("mount /sys");
  const std::string groups = place + "/fs/cgroup";
  if (::access("/sys/fs/cgroup", F_OK) == 0 &&
      ::mount("/sys/fs/cgroup", groups.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0)
    die("mount /sys/fs/cgroup");
  if (::mount(place.c_str(), "/sys", nullptr, MS_MOVE, nullptr) != 0) die("move /sys");
  ::rmdir(place.c_str());
}

/// Fills the room: a file system of its own that goes with the host, with the directories that
/// programs want.
void furnish(const std::string& room, const std::string& name) {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) die("make mounts private");
  if (::mount((room + "/hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) != 0)
    die("mount over /etc/hosts");
  if (::mount("lab", room.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") != 0)
    die("mount a tmpfs on " + room);
  for (const char* one : {"run", "tmp", "home"}) {
    if (::mkdir((room + "/" + one).c_str(), 0700) != 0) die("mkdir " + room + "/" + one);
  }
  mount_sys(room + "/sys");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    die("mount /proc");
  if (::sethostname(name.data(), name.size()) != 0) die("sethostname");
}

int boot(const char* lab, std::string_view cgroup, const std::string& name,
         const std::string& room) {
  const int procs = open_cgroup(cgroup);
  join_namespaces(lab, CLONE_NEWPID | CLONE_NEWNS);
  // A process between us and the host, itself in the lab: whatever is made below it cannot outlive
  // the lab.
  const pid_t between = ::fork();
  if (between < 0) die("fork");
  if (between > 0) {
    int status = 0;
    while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
  }
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) die("pipe");
  if (fork_with_namespaces(own_namespaces) == 0) {
    join_cgroup(procs);
    std::array<char, 32>
        pid{};  // /proc is still the caller's: so this is the pid that the caller knows us by
    if (::readlink("/proc/self", pid.data(), pid.size() - 1) <= 0) die("readlink /proc/self");
    furnish(room, name);
    std::printf("%s\n", pid.data());
    std::fflush(stdout);
    if (::write(ready[1], "", 1) != 1) die("write");
    be_init("host-init");
  }
  ::close(ready[1]);
  char byte = 0;
  std::_Exit(::read(ready[0], &byte, 1) == 1 ? 0 : 125);
}

// --- enter
// ------------------------------------------------------------------------------------------------

volatile sig_atomic_t child = 0;

/// What a terminal sends it sends to the program as well; what a process sends is for the program.
void pass_on(int signal, siginfo_t* from, void*) {
  if (child > 0 && from->si_code <= 0) ::kill(child, signal);
}

int enter(const char* host, std::string_view cgroup, char** argv) {
  const int procs = open_cgroup(cgroup);
  join_namespaces(host, own_namespaces | CLONE_NEWPID);
  std::array<int, 2> alive{};
  if (::pipe2(alive.data(), O_CLOEXEC) != 0) die("pipe");
  constexpr std::array passed = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGUSR1,
                                 SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};
  sigset_t set, before;
  ::sigemptyset(&set);
  for (const int one : passed) ::sigaddset(&set, one);
  ::sigprocmask(SIG_BLOCK, &set, &before);
  child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(alive[1]);
    pollfd parent = {alive[0], POLLIN, 0};
    if (::poll(&parent, 1, 0) != 0) std::_Exit(125);  // it died before it could have been noticed
    join_cgroup(procs);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execvp(argv[0], argv);
    die(std::string("cannot execute ") + argv[0]);
  }
  struct sigaction action{};
  action.sa_sigaction = pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int one : passed) ::sigaction(one, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  // Not ours to keep: a pipe to the program ends when the program ends it.
  ::close(0);
  ::close(1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "hold" && argc == 4) return hold(argv[2], argv[3]);
  if (verb == "boot" && argc == 6) return boot(argv[2], argv[3], argv[4], argv[5]);
  if (verb == "enter" && argc >= 5) return enter(argv[2], argv[3], argv + 4);
  std::fprintf(stderr,
               "usage: meshbus_lab_tool hold ROOM CGROUP | boot LAB CGROUP NAME ROOM | enter HOST "
               "CGROUP PROGRAM [ARGUMENT...]\n");
  return 2;
}
