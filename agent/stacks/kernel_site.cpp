#include "agent/stacks/kernel_site.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "agent/stacks/proc_files.h"

namespace meshbus::stacks {
namespace {

struct Call {
  long number;
  const char* name;
  bool has_descriptor;  ///< Its first argument is one.
};

/// Calls in which a thread may stay for long.
constexpr auto kCalls = std::to_array<Call>({
#ifdef SYS_poll
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_pause, "pause", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_open, "open", false},
    {SYS_vfork, "vfork", false},
#endif
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_pread64, "pread", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_preadv, "preadv", true},
    {SYS_pwritev, "pwritev", true},
    {SYS_openat, "openat", false},
    {SYS_ioctl, "ioctl", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_flock, "flock", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_futex, "futex", false},
    {SYS_ppoll, "ppoll", false},
    {SYS_pselect6, "pselect", false},
    {SYS_epoll_pwait, "epoll_pwait", false},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, "epoll_pwait2", false},
#endif
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, "futex_waitv", false},
#endif
    {SYS_nanosleep, "nanosleep", false},
    {SYS_clock_nanosleep, "clock_nanosleep", false},
    {SYS_restart_syscall, "restart_syscall", false},
    {SYS_wait4, "wait4", false},
    {SYS_waitid, "waitid", false},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept", true},
    {SYS_connect, "connect", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_recvmmsg, "recvmmsg", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_sendfile, "sendfile", true},
    {SYS_splice, "splice", true},
    {SYS_rt_sigtimedwait, "sigtimedwait", false},
    {SYS_rt_sigsuspend, "sigsuspend", false},
    {SYS_msgrcv, "msgrcv", false},
    {SYS_msgsnd, "msgsnd", false},
    {SYS_semop, "semop", false},
    {SYS_semtimedop, "semtimedop", false},
    {SYS_io_getevents, "io_getevents", false},
    {SYS_io_uring_enter, "io_uring_enter", true},
    {SYS_mmap, "mmap", false},
    {SYS_munmap, "munmap", false},
    {SYS_unlinkat, "unlinkat", false},
});

const Call* find_call(long number) {
  for (const auto& call : kCalls) {
    if (call.number == number) return &call;
  }
  return nullptr;
}

/// Adds fields 14 and 15 of /proc/PID/stat (proc(5)), in milliseconds. `fields`: from the state on.
std::uint64_t cpu_time(const std::string& fields) {
  unsigned long user = 0;
  unsigned long system = 0;
  const auto ticks = ::sysconf(_SC_CLK_TCK);
  if (ticks <= 0 ||
      std::sscanf(fields.c_str(), "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                  &system) != 2)
    return 0;
  return (user + system) * 1000 / static_cast<unsigned long>(ticks);
}

/// What it is, without a number that differs between ranks: "pipe", "socket", "/data/x".
std::string kind_of_descriptor(pid_t pid, std::uint64_t descriptor) {
  auto target = read_proc_link(pid, "fd/" + std::to_string(descriptor));
  for (const std::string_view kind : {"pipe", "socket"}) {
    if (target.starts_with(std::string(kind) + ":[")) return std::string(kind);
  }
  constexpr std::string_view kAnonymous = "anon_inode:";
  if (target.starts_with(kAnonymous)) target.erase(0, kAnonymous.size());
  return target;
}

}  // namespace

std::string system_call_name(long number) {
  const auto* call = find_call(number);
  return call == nullptr ? std::string() : call->name;
}

KernelSite find_kernel_site(pid_t pid, pid_t tid) {
  KernelSite site;
  const auto task = "task/" + std::to_string(tid) + "/";
  const auto status = read_proc_file(pid, task + "stat");
  // "PID (name) STATE ...": the name may contain anything.
  if (const auto end = status.rfind(')'); end != std::string::npos && end + 2 < status.size()) {
    site.state = status[end + 2];
    site.cpu_ms = cpu_time(status.substr(end + 2));
  }
  site.function = read_proc_word(pid, task + "wchan");
  if (site.function == "0") site.function.clear();
  const auto text = read_proc_word(pid, task + "syscall");
  unsigned long first = 0;
  if (std::sscanf(text.c_str(), "%ld 0x%lx", &site.number, &first) < 1) site.number = -1;
  site.first_argument = first;
  const auto* call = find_call(site.number);
  if (call != nullptr) {
    site.call = call->name;
    if (call->has_descriptor) {
      const auto kind = kind_of_descriptor(pid, site.first_argument);
      if (!kind.empty()) site.call += "(" + kind + ")";
    }
  } else if (site.number >= 0) {
    site.call = "system call " + std::to_string(site.number);
  }
  return site;
}

}  // namespace meshbus::stacks
