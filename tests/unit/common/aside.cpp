#include "common/loop/aside.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

using meshbus::Aside;
using namespace std::chrono_literals;

namespace {

/// Threads that come, each so long after the last one has left.
struct Visits {
  void come(int times, std::chrono::microseconds pause) {
    for (int i = 0; i < times; ++i) {
      now += pause;
      aside.note_coming(now);
      now += 1us;
      aside.note_leaving(now);
    }
  }
  Aside aside;
  Aside::Time now{1h};
};

}  // namespace

TEST_CASE("aside: wanted while others come again and again, and for a moment after that") {
  Visits visits;
  CHECK_FALSE(visits.aside.is_wanted(visits.now));
  visits.come(7, 20us);
  CHECK_FALSE(visits.aside.is_wanted(visits.now));
  visits.come(20, 20us);
  CHECK(visits.aside.is_wanted(visits.now));
  CHECK(visits.aside.is_wanted(visits.now + 199us));
  CHECK_FALSE(visits.aside.is_wanted(visits.now + 200us));
}

TEST_CASE("aside: one pause among many is no end, several are, and who comes rarely is let be") {
  Visits visits;
  visits.come(100, 20us);
  visits.come(1, 100us);
  CHECK(visits.aside.is_wanted(visits.now));
  visits.come(4, 100us);
  CHECK_FALSE(visits.aside.is_wanted(visits.now));
  visits.come(1000, 60us);
  CHECK_FALSE(visits.aside.is_wanted(visits.now));
}

TEST_CASE("aside: a stay ends when it is told so, or when nobody comes any more") {
  Aside aside;
  // As long as this thread comes, the other one stays.
  std::atomic<bool> is_over{false};
  std::atomic<int> stays{0};
  std::thread stayer([&] {
    while (!is_over) {
      if (!aside.is_wanted()) continue;
      aside.leave_loop();
      aside.stay();
      ++stays;
    }
  });
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (stays < 100 && std::chrono::steady_clock::now() < until) {
    for (int i = 0; i < 100; ++i) {
      aside.note_coming();
      aside.note_leaving();
    }
    aside.end();
  }
  is_over = true;
  stayer.join();
  CHECK(stays >= 100);
  for (int i = 0; i < 100; ++i) aside.note_coming();
  aside.leave_loop();
  aside.stay();
  CHECK_FALSE(aside.is_wanted());
}
