#include "common/loop/loop_guests.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <optional>

using meshbus::LoopGuests;
using meshbus::TurnLock;
using namespace std::chrono_literals;

namespace {

/// Two threads asleep in a loop, of which one is told that it has enough, and a third one that sees
/// it out, on a thread of its own.
struct Loop {
  Loop() {
    first->fall_asleep();
    second.fall_asleep();
    std::promise<void> has_woken;
    seen_out = std::async(std::launch::async, [this, &has_woken] {
      std::unique_lock lock(turns);
      const LoopGuests::Guest self(guests, never);
      return guests.see_out(self, lock, [&] { has_woken.set_value(); });
    });
    has_woken.get_future().wait();
    // It has the lock until it waits.
    const std::lock_guard lock(turns);
  }
  bool is_waiting() { return seen_out.wait_for(20ms) == std::future_status::timeout; }
  bool is_done() { return seen_out.wait_for(20s) == std::future_status::ready && seen_out.get(); }

  TurnLock turns;
  LoopGuests guests;
  bool has_enough = true;
  const std::function<bool()> never = [] { return false; };
  const std::function<bool()> enough = [this] { return has_enough; };
  std::optional<LoopGuests::Guest> first{std::in_place, guests, enough};
  LoopGuests::Guest second{guests, never};
  std::future<bool> seen_out;
};

}  // namespace

TEST_CASE("loop_guests: who has enough is seen out once it is awake") {
  Loop loop;
  CHECK(loop.is_waiting());
  std::unique_lock lock(loop.turns);
  CHECK(loop.guests.has_overdue());
  loop.first->wake_up();
  CHECK_FALSE(loop.guests.has_overdue());
  lock.unlock();
  CHECK(loop.is_done());
}

TEST_CASE("loop_guests: one that left and came again is another one, in the same place as it is") {
  Loop loop;
  std::unique_lock lock(loop.turns);
  loop.first->wake_up();
  loop.first.reset();
  loop.first.emplace(loop.guests, loop.enough);
  loop.first->fall_asleep();
  lock.unlock();
  CHECK(loop.is_done());
}

TEST_CASE("loop_guests: what one was to get another one has taken: nobody waits for it any more") {
  Loop loop;
  CHECK(loop.is_waiting());
  std::unique_lock lock(loop.turns);
  loop.has_enough = false;
  // The wake-up has met this one.
  loop.second.wake_up();
  loop.second.fall_asleep();
  lock.unlock();
  CHECK(loop.is_done());
}

TEST_CASE("loop_guests: nobody is seen out who has not enough, or is awake") {
  LoopGuests guests;
  TurnLock turns;
  std::unique_lock lock(turns);
  const std::function<bool()> never = [] { return false; }, always = [] { return true; };
  const LoopGuests::Guest self(guests, always), awake(guests, always);
  LoopGuests::Guest asleep(guests, never);
  asleep.fall_asleep();
  CHECK_FALSE(guests.see_out(self, lock, [] { FAIL("nobody is to be woken"); }));
}

TEST_CASE("loop_guests: one waiter at a time") {
  LoopGuests guests;
  CHECK(guests.become_waiter());
  CHECK_FALSE(guests.become_waiter());
  CHECK(guests.has_waiter());
  guests.stop_waiting();
  CHECK_FALSE(guests.has_waiter());
  guests.wait_for_waiter();
  CHECK(guests.become_waiter());
}
