// The two ways into a child that shares our memory. In assembly, because the child wakes up on an
// empty stack: it cannot return from a libc wrapper.
#include <linux/sched.h>
#include <sys/syscall.h>

#include <csignal>
#include <cstdint>

#include "agent/os/child_plan.h"
#include "agent/os/raw_syscall.h"

namespace meshbus::os {

namespace {

std::uint64_t flags_of(const CloneRequest& request) {
  return CLONE_VM | CLONE_VFORK | CLONE_PIDFD | (request.share_files ? CLONE_FILES : 0) |
         (request.new_pid_namespace ? CLONE_NEWPID : 0);
}

}  // namespace

#if defined(__x86_64__)

[[gnu::noinline]] long clone_with_clone3(const CloneRequest& request, int& pidfd) {
  clone_args args{};
  args.flags =
      flags_of(request) | CLONE_CLEAR_SIGHAND | (request.cgroup >= 0 ? CLONE_INTO_CGROUP : 0ull);
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uint64_t>(request.stack);
  args.stack_size = request.stack_size;
  if (request.cgroup >= 0) args.cgroup = static_cast<unsigned>(request.cgroup);
  long result;
  register void (*entry)(void*) __asm__("r12") = request.entry;
  register void* argument __asm__("r13") = request.argument;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(static_cast<long>(SYS_clone3)), "D"(&args), "S"(sizeof args), "r"(entry), "r"(argument)
      : "rcx", "r11", "memory");
  return result;
}

[[gnu::noinline]] long clone_with_clone(const CloneRequest& request, int& pidfd) {
  long result;
  char* top = static_cast<char*>(request.stack) + request.stack_size;
  register void (*entry)(void*) __asm__("r12") = request.entry;
  register void* argument __asm__("r13") = request.argument;
  register long child_tid __asm__("r10") = 0;
  register long tls __asm__("r8") = 0;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"(static_cast<long>(SYS_clone)), "D"(flags_of(request) | SIGCHLD), "S"(top), "d"(&pidfd),
        "r"(child_tid), "r"(tls), "r"(entry), "r"(argument)
      : "rcx", "r11", "memory");
  return result;
}

#elif defined(__aarch64__)

[[gnu::noinline]] long clone_with_clone3(const CloneRequest& request, int& pidfd) {
  clone_args args{};
  args.flags =
      flags_of(request) | CLONE_CLEAR_SIGHAND | (request.cgroup >= 0 ? CLONE_INTO_CGROUP : 0ull);
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uint64_t>(request.stack);
  args.stack_size = request.stack_size;
  if (request.cgroup >= 0) args.cgroup = static_cast<unsigned>(request.cgroup);
  register long x8 __asm__("x8") = SYS_clone3;
  register long x0 __asm__("x0") = reinterpret_cast<long>(&args);
  register long x1 __asm__("x1") = static_cast<long>(sizeof args);
  register void (*entry)(void*) __asm__("x19") = request.entry;
  register void* argument __asm__("x20") = request.argument;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(entry), "r"(argument)
      : "memory");
  return x0;
}

[[gnu::noinline]] long clone_with_clone(const CloneRequest& request, int& pidfd) {
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = static_cast<long>(flags_of(request) | SIGCHLD);
  register char* x1 __asm__("x1") = static_cast<char*>(request.stack) + request.stack_size;
  register int* x2 __asm__("x2") = &pidfd;
  register long x3 __asm__("x3") = 0;
  register long x4 __asm__("x4") = 0;
  register void (*entry)(void*) __asm__("x19") = request.entry;
  register void* argument __asm__("x20") = request.argument;
  __asm__ volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(entry), "r"(argument)
      : "memory");
  return x0;
}

#endif

}  // namespace meshbus::os
