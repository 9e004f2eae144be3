#include "agent/warden/role_silence.h"

#include <doctest/doctest.h>

namespace meshbus::warden {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 30s;
constexpr RoleSilence::Time kStart{1000s};

/// A role that is looked at every 10 s. It last spoke at the first of the looks.
struct Looks {
  RoleSilence silence;
  RoleSilence::Time now = kStart;
  std::vector<ThreadLook> threads{{.tid = 7, .state = 'S'}};

  explicit Looks(std::size_t count = 1) {
    while (threads.size() < count)
      threads.push_back({.tid = static_cast<pid_t>(7 + threads.size()), .state = 'S'});
    silence.start_anew(now);
    CHECK(silence.on_look(now, threads, kLimit) == Silence::brief);
  }
  /// Thread `index` did so within the next 10 s, and is in that state at their end.
  Silence next(char state, std::chrono::nanoseconds ran = 0s, std::chrono::nanoseconds waited = 0s,
               std::size_t index = 0) {
    threads[index].state = state;
    threads[index].ran += ran;
    threads[index].waited += waited;
    now += 10s;
    return silence.on_look(now, threads, kLimit);
  }
};

TEST_CASE("role_silence: what sleeps, or is stopped, is frozen when the limit is reached") {
  for (const auto& [state, expected] :
       {std::pair('S', Silence::stuck), {'T', Silence::stopped}, {'t', Silence::stopped}}) {
    CAPTURE(state);
    Looks looks;
    CHECK(looks.next(state) == Silence::brief);
    CHECK(looks.next(state) == Silence::brief);
    CHECK(looks.silence.length(looks.now) == 20s);
    CHECK(looks.next(state) == expected);
  }
}

TEST_CASE("role_silence: what is gone is not judged") {
  Looks looks;
  looks.next('S');
  looks.next('S');
  CHECK(looks.next('Z') == Silence::ended);
  CHECK(looks.next('X') == Silence::ended);
  CHECK(looks.silence.on_look(looks.now + 10s, {}, kLimit) == Silence::ended);
}

TEST_CASE("role_silence: a wait for a CPU that goes on is no silence, however long it is") {
  Looks looks;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    CHECK(looks.next('R') == Silence::brief);
    CHECK(looks.next('R') == Silence::brief);
    CHECK(looks.next('R') == Silence::waits_for_cpu);
  }
  CHECK(looks.silence.length(looks.now) == 600s);
  // What it waited is in the sum now, and it has answered.
  looks.silence.start_anew(looks.now);
  CHECK(looks.next('S', 1ms, 600s) == Silence::brief);
  // From here on it could have.
  CHECK(looks.next('S') == Silence::brief);
  CHECK(looks.next('S') == Silence::waits_for_cpu);
  CHECK(looks.next('S') == Silence::stuck);
}

TEST_CASE("role_silence: what is stopped while it waits for a CPU is found when the wait is over") {
  Looks looks;
  for (int i = 0; i < 6; ++i) looks.next('R');
  CHECK(looks.next('T', 0s, 60s) == Silence::brief);
  CHECK(looks.next('T') == Silence::brief);
  CHECK(looks.next('T') == Silence::waits_for_cpu);
  CHECK(looks.next('T') == Silence::stopped);
}

TEST_CASE("role_silence: a role that waits again and again, and runs little, is slow") {
  Looks looks;
  CHECK(looks.next('S', 10ms, 9s) == Silence::brief);
  CHECK(looks.next('R', 10ms, 9s) == Silence::brief);
  CHECK(looks.next('S', 10ms, 9s) == Silence::waits_for_cpu);
  CHECK(looks.next('S', 10ms, 9s) == Silence::brief);
}

TEST_CASE("role_silence: half of the time is enough to say something") {
  for (const char state : {'R', 'S', 'T'}) {
    CAPTURE(state);
    Looks looks;
    looks.next(state, 5s, 5s);
    looks.next(state, 5s, 5s);
    CHECK(looks.next(state, 5s, 5s) == (state == 'T' ? Silence::stopped : Silence::stuck));
    Looks less;
    less.next(state, 5s, 5s);
    less.next(state, 5s, 5s);
    CHECK(less.next(state, 4999ms, 5001ms) == Silence::waits_for_cpu);
  }
}

TEST_CASE(
    "role_silence: an endless loop is stuck, on a busy machine as well, where that takes longer") {
  Looks alone;
  alone.next('R', 10s);
  alone.next('R', 10s);
  CHECK(alone.next('R', 10s) == Silence::stuck);

  Looks crowded;
  Silence found = Silence::brief;
  int looks = 0;
  for (; looks < 100 && found != Silence::stuck; ++looks) found = crowded.next('R', 1s, 9s);
  CHECK(looks == 15);
}

TEST_CASE("role_silence: state D is a wait, and counts for nothing afterwards") {
  Looks looks;
  for (int round = 0; round < 3; ++round) {
    looks.next('D');
    looks.next('D');
    CHECK(looks.next('D') == Silence::waits_for_device);
  }
  CHECK(looks.next('S') == Silence::brief);
  CHECK(looks.next('S') == Silence::brief);
  CHECK(looks.next('S') == Silence::stuck);
}

TEST_CASE("role_silence: the main thread may wait for another one") {
  Looks waits(3);
  waits.next('R', 0s, 0s, 2);
  waits.next('R', 0s, 0s, 2);
  CHECK(waits.next('R', 0s, 0s, 2) == Silence::waits_for_cpu);
  Looks device(2);
  device.next('D', 0s, 0s, 1);
  device.next('D', 0s, 0s, 1);
  CHECK(device.next('D', 0s, 0s, 1) == Silence::waits_for_device);
  // Another one that works does not excuse it, nor does one that is dead.
  Looks works(2);
  works.next('R', 9s, 1s, 1);
  works.next('S', 1s, 1s, 1);
  CHECK(works.next('R', 10s, 0s, 1) == Silence::stuck);
  Looks dead(2);
  dead.next('Z', 0s, 0s, 1);
  dead.next('Z', 0s, 0s, 1);
  CHECK(dead.next('Z', 0s, 0s, 1) == Silence::stuck);
  // What is stopped waits for nothing but the signal.
  Looks stopped(2);
  stopped.threads[1].state = 'R';
  stopped.next('T');
  stopped.next('T');
  CHECK(stopped.next('T') == Silence::stopped);
}

TEST_CASE("role_silence: a thread that was not there before has its own sums") {
  Looks looks;
  looks.threads.push_back({.tid = 99, .state = 'R'});
  looks.next('S');
  looks.next('S');
  CHECK(looks.next('S') == Silence::waits_for_cpu);
}

TEST_CASE("role_silence: the first look counts for nothing, and a sign of life ends the silence") {
  RoleSilence silence;
  silence.start_anew(kStart);
  const std::vector<ThreadLook> threads{{.tid = 7, .state = 'S', .ran = 3s}};
  CHECK(silence.on_look(kStart + 100s, threads, kLimit) == Silence::brief);
  CHECK(silence.on_look(kStart + 120s, threads, kLimit) == Silence::brief);
  silence.start_anew(kStart + 125s);
  // What counts begins with the sign, not with the look before it.
  CHECK(silence.on_look(kStart + 130s, threads, kLimit) == Silence::brief);
  CHECK(silence.on_look(kStart + 154s, threads, kLimit) == Silence::brief);
  CHECK(silence.on_look(kStart + 155s, threads, kLimit) == Silence::stuck);
}

}  // namespace
}  // namespace meshbus::warden
