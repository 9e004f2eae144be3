#include "agent/os/spawner.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace meshbus::os {

namespace {

constexpr std::size_t kGuardBytes = 4096 * 16;  // a page, whatever its size
constexpr std::size_t kStackBytes = 64u << 10;  // run_child needs well under 1 KiB

std::uint64_t find_ignored_signals() {
  std::uint64_t ignored = 0;
  for (int signal = 1; signal <= 64; ++signal) {
    // By system call: the C library denies that its own two signals (32 and 33) exist, and its
    // posix_spawn leaves them ignored.
    struct {
      std::uintptr_t handler;
      unsigned long flags, restorer, mask;
    } action{};
    const bool asked =
        ::syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask) == 0;
    if (asked && action.handler == reinterpret_cast<std::uintptr_t>(SIG_IGN))
      ignored |= std::uint64_t{1} << (signal - 1);
  }
  return ignored;
}

void reap(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | __WALL) != 0 && errno == EINTR) {
  }
}

// Joins by cgroup.procs, where clone3 cannot place the child.
UniqueFd open_cgroup_procs(int cgroup) {
  return UniqueFd(::openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC));
}

}  // namespace

Result<Spawner> Spawner::make() {
  void* mapping = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED)
    return fail(ErrorCode::io_error,
                std::string("mmap of the spawn stack: ") + std::strerror(errno));
  if (::mprotect(mapping, kGuardBytes, PROT_NONE) != 0) {
    const int error = errno;
    ::munmap(mapping, kGuardBytes + kStackBytes);
    return fail(ErrorCode::io_error,
                std::string("mprotect of the spawn stack's guard: ") + std::strerror(error));
  }
  Spawner spawner(mapping, find_ignored_signals());
  // Without it (old kernels, strict seccomp profiles) only descriptors that are close-on-exec stay
  // out of the child; all of ours are.
  spawner.close_range_works_ = ::syscall(SYS_close_range, ~0u, ~0u, CLOSE_RANGE_CLOEXEC) == 0;
  return spawner;
}

Spawner::Spawner(Spawner&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      ignored_signals_(other.ignored_signals_),
      clone3_works_(other.clone3_works_),
      close_range_works_(other.close_range_works_) {}

Spawner::~Spawner() {
  if (mapping_ != nullptr) ::munmap(mapping_, kGuardBytes + kStackBytes);
}

// All signals blocked: a handler of ours must not run in the child, on our memory.
long Spawner::clone_child(void (*entry)(void*), ChildPlan& plan, int cgroup, int& pidfd) {
  CloneRequest request{entry,
                       &plan,
                       static_cast<char*>(mapping_) + kGuardBytes,
                       kStackBytes,
                       cgroup,
                       plan.descriptors.first_foreign_fd != 0,
                       plan.ties.new_pid_namespace};
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  long pid = -ENOSYS;
  if (clone3_works_) {
    pid = clone_with_clone3(request, pidfd);
    // EPERM too: some seccomp profiles answer that. Then the older call says what it really is.
    if (pid == -ENOSYS || (pid == -EPERM && cgroup < 0)) clone3_works_ = pid != -ENOSYS;
  }
  if (pid == -ENOSYS || (pid == -EPERM && cgroup < 0)) {
    UniqueFd procs;
    if (cgroup >= 0) {
      procs = open_cgroup_procs(cgroup);
      if (!procs) pid = -errno;
    }
    if (cgroup < 0 || procs) {
      plan.signals.reset_all = true;
      plan.cgroups.cgroup_procs = procs.get();
      pid = clone_with_clone(request, pidfd);
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

tl::expected<Child, SpawnFailure> Spawner::run(ChildPlan plan, int cgroup) {
  plan.ties.parent = plan.ties.new_pid_namespace ? 0 : ::getpid();  // as the child sees us
  plan.signals.ignored = ignored_signals_;
  plan.descriptors.has_close_range = close_range_works_;
  if (!close_range_works_) plan.descriptors.first_foreign_fd = 0;
  int pidfd = -1;
  const long pid = clone_child(run_child, plan, cgroup, pidfd);
  if (pid < 0) {
    const int error = static_cast<int>(-pid);
    const bool by_cgroup = cgroup >= 0 && (error == EACCES || error == ENODEV ||
                                           error == EOPNOTSUPP || error == EBUSY || error == EPERM);
    const bool by_descriptors = error == EMFILE || error == ENFILE;
    const SpawnStage stage = by_cgroup        ? SpawnStage::cgroup
                             : by_descriptors ? SpawnStage::descriptors
                                              : SpawnStage::clone;
    return tl::unexpected(SpawnFailure{stage, error, {}});
  }
  Child child{static_cast<pid_t>(pid), UniqueFd(pidfd)};
  if (plan.outcome.failed_stage == 0) return child;
  reap(child.pid);
  SpawnFailure failure{static_cast<SpawnStage>(plan.outcome.failed_stage), plan.outcome.error, {}};
  if (failure.stage == SpawnStage::oom_score) failure.file = "/proc/self/oom_score_adj";
  if (failure.stage == SpawnStage::limits)
    failure.file = rlimit_name(plan.limits.each[plan.outcome.failed_limit].resource);
  return tl::unexpected(std::move(failure));
}

int Spawner::probe_cgroup(int cgroup) {
  return probe({}, cgroup);
}

int Spawner::probe_pid_namespace() {
  ChildPlan plan;
  plan.ties.new_pid_namespace = true;
  return probe(plan, -1);
}

int Spawner::probe(ChildPlan plan, int cgroup) {
  int pidfd = -1;
  const long pid = clone_child(end_at_once, plan, cgroup, pidfd);
  if (pid < 0) return static_cast<int>(-pid);
  const UniqueFd owned(pidfd);
  reap(static_cast<pid_t>(pid));
  return 0;
}

}  // namespace meshbus::os
