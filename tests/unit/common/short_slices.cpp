#include "common/loop/short_slices.h"

#include <doctest/doctest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace {

/// What the kernel grants the calling thread at a time, in ns; 0: it does not say (before 6.12).
std::uint64_t own_slice() {
  std::array<std::uint64_t, 6> attributes{};  // struct sched_attr: the fourth is sched_runtime
  return ::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0) == 0
             ? attributes[3]
             : 0;
}

}  // namespace

TEST_CASE(
    "short slices: a thread has them when it has asked, and so have the threads that it starts, "
    "and no other" *
    doctest::skip(own_slice() == 0)) {
  const std::uint64_t before = own_slice();
  std::uint64_t asked = 0, inherited = 0;
  std::thread([&] {
    meshbus::ask_for_short_slices();
    asked = own_slice();
    std::thread([&] { inherited = own_slice(); }).join();
  }).join();
  CHECK(asked == 100'000);
  CHECK(inherited == 100'000);
  CHECK(own_slice() == before);
}
