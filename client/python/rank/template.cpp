// A template's side of the copies (agent/os/template_link.h): the system calls.
#include "client/python/rank/template.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

namespace meshbus::python {
namespace {

namespace py = pybind11;

/// As in meshbus/template.py.
constexpr int kCopyFailed = 127;

// What the C library keeps of a thread in the kernel, and sets up anew when it forks itself.
struct ThreadMemory {
  int* id = nullptr;  // where it keeps the thread's number
  robust_list_head* robust_list = nullptr;
  std::size_t robust_list_size = 0;

  static ThreadMemory ours() {
    ThreadMemory memory;
    if (::prctl(PR_GET_TID_ADDRESS, &memory.id, 0, 0, 0) != 0) memory.id = nullptr;
    if (::syscall(SYS_get_robust_list, 0, &memory.robust_list, &memory.robust_list_size) != 0)
      memory.robust_list = nullptr;
    return memory;
  }
};

/// The copy itself joins a cgroup that the call could not put it into. False: not possible.
bool join_cgroup(int cgroup) {
  const int file = ::openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  const bool has_joined = file >= 0 && ::write(file, "0", 1) == 1;
  if (file >= 0) ::close(file);
  return has_joined;
}

/// Where clone3 is forbidden, as in containers by default (their seccomp profile answers ENOSYS).
long clone_by_the_older_call(const ThreadMemory& memory, int cgroup, int& pidfd) {
  unsigned long flags = CLONE_PARENT | CLONE_PIDFD;
  if (memory.id != nullptr) flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
#if defined(__x86_64__)
  const long pid = ::syscall(SYS_clone, flags, nullptr, &pidfd, memory.id, 0UL);
#else
  const long pid = ::syscall(SYS_clone, flags, nullptr, &pidfd, 0UL, memory.id);
#endif
  if (pid == 0 && cgroup >= 0 && !join_cgroup(cgroup)) {
    ::dprintf(STDERR_FILENO, "meshbus: a copy of a template cannot join its cgroup\n");
    ::_exit(kCopyFailed);
  }
  return pid < 0 ? -errno : pid;
}

long clone_to_parent(const ThreadMemory& memory, int cgroup, int& pidfd) {
  clone_args args{};
  args.flags = CLONE_PARENT | CLONE_PIDFD;
  if (memory.id != nullptr) args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  args.child_tid = reinterpret_cast<std::uint64_t>(memory.id);
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<unsigned>(cgroup);
  }
  // The signal of its end is that of our own: CLONE_PARENT wants 0 here.
  const long pid = ::syscall(SYS_clone3, &args, sizeof args);
  if (pid < 0 && (errno == ENOSYS || (errno == EPERM && cgroup < 0)))
    return clone_by_the_older_call(memory, cgroup, pidfd);
  return pid < 0 ? -errno : pid;
}

/// (pid, pidfd) here, and (0, -1) in the copy. Raises OSError.
py::tuple copy_process(int cgroup) {
  const ThreadMemory memory = ThreadMemory::ours();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  PyOS_BeforeFork();
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const long pid = clone_to_parent(memory, cgroup, pidfd);
  if (pid == 0) {
    if (memory.robust_list != nullptr)
      ::syscall(SYS_set_robust_list, memory.robust_list, memory.robust_list_size);
    PyOS_AfterFork_Child();
  } else {
    PyOS_AfterFork_Parent();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    errno = static_cast<int>(-pid);
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
  return py::make_tuple(pid, pid == 0 ? -1 : pidfd);
}

/// What a process does not inherit. Raises OSError.
void tie_to_parent(int death_signal, bool is_subreaper) {
  if ((death_signal != 0 && ::prctl(PR_SET_PDEATHSIG, death_signal) != 0) ||
      (is_subreaper && ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
}

/// What ps shows of this process from now on, as far as there is room: each word ended by a NUL.
void set_command_line(const std::string& words) {
  std::ifstream stat("/proc/self/stat");
  std::string text;
  std::getline(stat, text);
  const auto after_name = text.rfind(')');
  if (after_name == std::string::npos) return;
  std::istringstream fields(text.substr(after_name + 2));
  constexpr int kBeforeArguments = 45;  // fields 3 to 47 of proc(5)
  std::string skipped;
  for (int i = 0; i < kBeforeArguments; ++i) fields >> skipped;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return;
  const std::span<char> room(reinterpret_cast<char*>(begin), end - begin);
  const std::size_t size = std::min(words.size(), room.size() - 1);
  std::fill(std::copy_n(words.begin(), size, room.begin()), room.end(), '\0');
}

}  // namespace

void bind_template(py::module_& module) {
  module.def("copy_process", &copy_process);
  module.def("tie_to_parent", &tie_to_parent);
  module.def("set_command_line", [](const py::bytes& words) { set_command_line(words); });
}

}  // namespace meshbus::python
