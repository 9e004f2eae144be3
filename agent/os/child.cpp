// What the child does between clone and exec. It runs in our memory on a stack of its own: raw
// system calls only, no libc, no allocation, no instrumentation. The order matters and is
// architecture.md's.
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mempolicy.h>
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
constexpr long kKernelSigsetBytes = 8;
constexpr int kLastSignal = 64;

template <typename T>
[[gnu::always_inline]] inline long as_long(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

[[noreturn]] [[gnu::always_inline]] inline void give_up(ChildPlan& plan, SpawnStage stage,
                                                        long result) {
  plan.outcome.failed_stage = static_cast<int>(stage);
  plan.outcome.error = static_cast<int>(-result);
  for (;;) raw_syscall(SYS_exit_group, 127);
}

// Volatile, so that the compiler does not make a call of memcpy out of it.
[[gnu::always_inline]] inline void write_bootstrap_text(const ChildPlan& plan) {
  char digits[12];
  int count = 0;
  for (long pid = raw_syscall(SYS_getpid); pid > 0; pid /= 10)
    digits[count++] = static_cast<char>('0' + pid % 10);
  volatile char* out = plan.bootstrap.text;
  while (count > 0) *out++ = digits[--count];
  for (const char* suffix = plan.bootstrap.suffix; *suffix != '\0'; ++suffix) *out++ = *suffix;
  *out = '\0';
}

[[gnu::always_inline]] inline void reset_signals(ChildPlan& plan) {
  const KernelSigaction by_default{};
  for (int signal = 1; signal <= kLastSignal; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    if (!plan.signals.reset_all && (plan.signals.ignored >> (signal - 1) & 1) == 0) continue;
    const long result =
        raw_syscall(SYS_rt_sigaction, signal, as_long(&by_default), 0, kKernelSigsetBytes);
    if (result < 0) give_up(plan, SpawnStage::signals, result);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): runs between clone and exec, where calls are few
void run_child(void* argument) {
  ChildPlan& plan = *static_cast<ChildPlan*>(argument);
  long result = plan.ties.new_session ? raw_syscall(SYS_setsid) : raw_syscall(SYS_setpgid, 0, 0);
  if (result < 0) give_up(plan, SpawnStage::session, result);

  if (plan.cgroups.cgroup_procs >= 0) {
    const char self = '0';
    result = raw_syscall(SYS_write, plan.cgroups.cgroup_procs, as_long(&self), 1);
    if (result < 0) give_up(plan, SpawnStage::cgroup, result);
  }
  for (std::size_t i = 0; i < plan.cgroups.join_count; ++i) {
    const char self = '0';
    result = raw_syscall(SYS_write, plan.cgroups.joins[i], as_long(&self), 1);
    if (result < 0) give_up(plan, SpawnStage::cgroup, result);
  }
  for (std::size_t i = 0; i < plan.limits.count; ++i) {
    const KernelLimit limit{plan.limits.each[i].soft, plan.limits.each[i].hard};
    result = raw_syscall(SYS_prlimit64, 0, static_cast<long>(plan.limits.each[i].resource),
                         as_long(&limit), 0);
    plan.outcome.failed_limit = i;
    if (result < 0) give_up(plan, SpawnStage::limits, result);
  }
  if (plan.limits.oom_score != nullptr) {
    static const char file[] = {'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'o', 'o',
                                'm', '_', 's', 'c', 'o', 'r', 'e', '_', 'a', 'd', 'j', '\0'};
    const long score = raw_syscall(SYS_openat, AT_FDCWD, as_long(file), O_WRONLY | O_CLOEXEC);
    if (score < 0) give_up(plan, SpawnStage::oom_score, score);
    result = raw_syscall(SYS_write, score, as_long(plan.limits.oom_score),
                         static_cast<long>(plan.limits.oom_score_bytes));
    if (result < 0) give_up(plan, SpawnStage::oom_score, result);
    raw_syscall(SYS_close, score);
  }
  if (plan.limits.has_nice) {
    result = raw_syscall(SYS_setpriority, PRIO_PROCESS, 0, plan.limits.nice);
    if (result < 0) give_up(plan, SpawnStage::nice, result);
  }
  if (plan.limits.cpu_mask != nullptr) {
    result = raw_syscall(SYS_sched_setaffinity, 0, static_cast<long>(plan.limits.cpu_mask_bytes),
                         as_long(plan.limits.cpu_mask));
    if (result < 0) give_up(plan, SpawnStage::affinity, result);
  }
  if (plan.limits.memory_nodes != nullptr) {
    result =
        raw_syscall(SYS_set_mempolicy, plan.limits.memory_mode, as_long(plan.limits.memory_nodes),
                    static_cast<long>(plan.limits.memory_node_bits));
    // A preference is worth no rank.
    if (result < 0 && plan.limits.memory_mode == MPOL_BIND)
      give_up(plan, SpawnStage::memory_policy, result);
  }
  if (plan.command.umask >= 0) raw_syscall(SYS_umask, plan.command.umask);
  if (plan.credentials.has_groups) {
    result = raw_syscall(SYS_setgroups, static_cast<long>(plan.credentials.group_count),
                         as_long(plan.credentials.groups));
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  if (plan.credentials.gid >= 0) {
    result = raw_syscall(SYS_setresgid, plan.credentials.gid, plan.credentials.gid,
                         plan.credentials.gid);
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  if (plan.credentials.uid >= 0) {
    result = raw_syscall(SYS_setresuid, plan.credentials.uid, plan.credentials.uid,
                         plan.credentials.uid);
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  // Before the parent-death signal, which a change of credentials clears.
  if (plan.ties.parent_death_signal != 0) {
    result = raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, plan.ties.parent_death_signal);
    if (result < 0) give_up(plan, SpawnStage::parent_death, result);
    // A parent that died before the signal was armed does not send it.
    if (raw_syscall(SYS_getppid) != plan.ties.parent) give_up(plan, SpawnStage::parent_death, 0);
  }
  if (plan.ties.subreaper) {
    result = raw_syscall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
    if (result < 0) give_up(plan, SpawnStage::subreaper, result);
  }
  if (plan.credentials.no_new_privs) {
    result = raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
    if (result < 0) give_up(plan, SpawnStage::credentials, result);
  }
  if (plan.command.cwd != nullptr) {
    result = raw_syscall(SYS_chdir, as_long(plan.command.cwd));
    if (result < 0) give_up(plan, SpawnStage::working_directory, result);
  }
  if (plan.descriptors.first_foreign_fd != 0) {
    result =
        raw_syscall(SYS_close_range, plan.descriptors.first_foreign_fd, ~0u, CLOSE_RANGE_UNSHARE);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  for (int i = 0; i < 3; ++i) {
    if (plan.descriptors.stdio[i] < 0) continue;
    result = raw_syscall(SYS_dup3, plan.descriptors.stdio[i], i, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  if (plan.descriptors.has_close_range) {
    result = raw_syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  if (plan.bootstrap.fd >= 0) {
    // Behind the standard streams, whose sources may have had the target's number.
    result = plan.bootstrap.fd == plan.bootstrap.target
                 ? raw_syscall(SYS_fcntl, plan.bootstrap.fd, F_SETFD, 0)
                 : raw_syscall(SYS_dup3, plan.bootstrap.fd, plan.bootstrap.target, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
    write_bootstrap_text(plan);
  }
  if (plan.bootstrap.link >= 0) {
    result = plan.bootstrap.link == plan.bootstrap.link_target
                 ? raw_syscall(SYS_fcntl, plan.bootstrap.link, F_SETFD, 0)
                 : raw_syscall(SYS_dup3, plan.bootstrap.link, plan.bootstrap.link_target, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  if (plan.bootstrap.bus_folder >= 0) {
    result =
        plan.bootstrap.bus_folder == plan.bootstrap.bus_folder_target
            ? raw_syscall(SYS_fcntl, plan.bootstrap.bus_folder, F_SETFD, 0)
            : raw_syscall(SYS_dup3, plan.bootstrap.bus_folder, plan.bootstrap.bus_folder_target, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  for (std::size_t i = 0; i < plan.descriptors.inherit_count; ++i) {
    result = raw_syscall(SYS_fcntl, plan.descriptors.inherit[i], F_SETFD, 0);
    if (result < 0) give_up(plan, SpawnStage::stdio, result);
  }
  reset_signals(plan);
  const std::uint64_t empty_mask = 0;
  result =
      raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, as_long(&empty_mask), 0, kKernelSigsetBytes);
  if (result < 0) give_up(plan, SpawnStage::signals, result);
  result = raw_syscall(SYS_execve, as_long(plan.command.path), as_long(plan.command.argv),
                       as_long(plan.command.envp));
  give_up(plan, SpawnStage::exec, result);
}

void end_at_once(void*) {
  for (;;) raw_syscall(SYS_exit_group, 0);
}

}  // namespace meshbus::os
