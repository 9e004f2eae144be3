#pragma once

// For the child between clone and exec only, which shares our memory and has a stack that no
// sanitizer knows: CMakeLists.txt compiles these files without instrumentation.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#error "code of the child between clone and exec must be compiled without sanitizers"
#endif

namespace meshbus::os {

/// A system call without libc: no errno, no interceptors. Returns what the kernel returned: -errno
/// on failure.
#if defined(__x86_64__)
[[gnu::always_inline]] inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0,
                                               long d = 0, long e = 0) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
[[gnu::always_inline]] inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0,
                                               long d = 0, long e = 0) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}
#else
#error "clone.cpp is written for x86_64 and aarch64; add this processor there and in raw_syscall.h"
#endif

}  // namespace meshbus::os
