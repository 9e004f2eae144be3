// What the child does between clone and exec. It runs in our memory on a stack of its own: raw system calls only, no libc, no
// allocation, no instrumentation. The order matters and is architecture.md's.
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <csignal>

#include "agent/os/child_plan.h"
#include "agent/os/raw_syscall.h"
#include "agent/os/spec.h"

namespace meshbus::os {

namespace {

// struct rlimit64 and struct sigaction as the kernel has them.
struct KernelLimit {
  std::uint64_t soft;
  std::uint64_t hard;
};
struct KernelSigaction {
  unsigned long handler;
  unsigned long flags;
  unsigned long restorer;
  unsigned long mask;
};
constexpr long kernel_sigset_bytes = 8;
constexpr int last_signal = 64;

template <typename T>
[[gnu::always_inline]] inline long as_long(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

[[noreturn]] [[gnu::always_inline]] inline void give_up(ChildPlan& plan, SpawnStage stage, long result) {
  plan.failed_stage = static_cast<int>(stage);
  plan.error = static_cast<int>(-result);
  for (;;) raw_syscall(SYS_exit_group, 127);
}

// Volatile, so that the compiler does not make a call of memcpy out of it.
[[gnu::always_inline]] inline void write_bootstrap_text(const ChildPlan& plan) {
  char digits[12];
  int count = 0;
  for (long pid = raw_syscall(SYS_getpid); pid > 0; pid /= 10) digits[count++] = static_cast<char>('0' + pid % 10);
  volatile char* out = plan.bootstrap_text;
  while (count > 0) *out++ = digits[--count];
  for (const char* suffix = plan.bootstrap_suffix; *suffix != '\0'; ++suffix) *out++ = *suffix;
  *out = '\0';
}

[[gnu::always_inline]] inline void reset_signals(ChildPlan& plan) {
  const KernelSigaction by_default{};
  for (int signal = 1; signal <= last_signal; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    if (!plan.reset_all_signals && (plan.ignored_signals >> (signal - 1) & 1) == 0) continue;
    const long result = raw_syscall(SYS_rt_sigaction, signal, as_long(&by_default), 0, kernel_sigset_bytes);
    if (result < 0) give_up(plan, SpawnStage::signals, result);
  }
}

}  // namespace

void run_child(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  long result = plan.new_session ? raw_syscall(SYS_setsid) : raw_syscall(SYS_setpgid, 0, 0);
  if (result < 0) give_up(plan, SpawnStage::session, result);

  if (plan.cgroup_procs >= 0) {
    const char self = '0';
    result = raw_syscall(SYS_write, plan.cgroup_procs, as_long(&self), 1);
    if (result < 0) give_up(plan, SpawnStage::cgroup, result);
  }
  for (std::size_t i = 0; i < plan.join_count; ++i) {
    const char self = '0';
    result = raw_syscall(SYS_write, plan.joins[i], as_long(&self), 1);
    if (result < 0) give_up(plan, SpawnStage::cgroup, result);
  }
  for (std::size_t i = 0; i < plan.limit_count; ++i) {
    const KernelLimit limit{plan.limits[i].soft, plan.limits[i].hard};
    result = raw_syscall(SYS_prlimit64, 0, static_cast<long>(plan.limits[i].resource), as_long(&limit), 0);
    plan.failed_limit = i;
    if (result < 0) give_up(plan, SpawnStage::limits, result);
  }
  if (plan.has_nice) {
    result = raw_syscall(SYS_setpriority, PRIO_PROCESS, 0, plan.nice);
    if (result < 0) give_up(plan, SpawnStage::nice, result);
  }
  if (plan.cpu_mask != nullptr) {
    result = raw_syscall(SYS_sched_setaffinity, 0, static_cast<long>(plan.cpu_mask_bytes), as_long(plan.cpu_mask));
    if (result < 0) give_up(plan, SpawnStage::affinity, result);
  }
  if (plan.umask >= 0) raw_syscall(SYS_umask, plan.umask);
  if (plan.has_groups) {
    result = raw_syscall(SYS_setgroups, static_cast<long>(plan.group_count), as_long(plan.groups));
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  if (plan.gid >= 0) {
    result = raw_syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid);
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  if (plan.uid >= 0) {
    result = raw_syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid);
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  // Before the parent-death signal, which a change of credentials clears.
  if (plan.parent_death_signal != 0) {
    result = raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, plan.parent_death_signal);
    if (result < 0) give_up(plan, SpawnStage::parent_death, result);
    // Who died before the signal was armed will not send it.
    if (raw_syscall(SYS_getppid) != plan.parent) give_up(plan, SpawnStage::parent_death, 0);
  }
  if (plan.subreaper) {
    result = raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
    if (result < 0) give_up(plan, SpawnStage::subreaper, result);
  }
  if (plan.cwd != nullptr) {
    result = raw_syscall(SYS_chdir, as_long(plan.cwd));
    if (result < 0) give_up(plan, SpawnStage::working_directory, result);
  }
  if (plan.first_foreign_fd != 0) {
    result = raw_syscall(SYS_close_range, plan.first_foreign_fd, ~0u, CLOSE_RANGE_UNSHARE);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  for (int i = 0; i < 3; ++i) {
    if (plan.stdio[i] < 0) continue;
    result = raw_syscall(SYS_dup3, plan.stdio[i], i, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  if (plan.has_close_range) {
    result = raw_syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  if (plan.bootstrap >= 0) {
    // Behind the standard streams, whose sources may have had the target's number.
    result = plan.bootstrap == plan.bootstrap_target ? raw_syscall(SYS_fcntl, plan.bootstrap, F_SETFD, 0)
                                                     : raw_syscall(SYS_dup3, plan.bootstrap, plan.bootstrap_target, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
    write_bootstrap_text(plan);
  }
  if (plan.link >= 0) {
    result = plan.link == plan.link_target ? raw_syscall(SYS_fcntl, plan.link, F_SETFD, 0)
                                           : raw_syscall(SYS_dup3, plan.link, plan.link_target, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  for (std::size_t i = 0; i < plan.inherit_count; ++i) {
    result = raw_syscall(SYS_fcntl, plan.inherit[i], F_SETFD, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  reset_signals(plan);
  const std::uint64_t empty_mask = 0;
  result = raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&empty_mask), 0, kernel_sigset_bytes);
  if (result < 0) give_up(plan, SpawnStage::signals, result);
  result = raw_syscall(SYS_execve, as_long(plan.path), as_long(plan.argv), as_long(plan.envp));
  give_up(plan, SpawnStage::exec, result);
}

void end_at_once(void*) {
  for (;;) raw_syscall(SYS_exit_group, 0);
}

}  // namespace meshbus::os
