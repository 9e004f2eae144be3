#include "agent/host/procs/termination.h"

#include <doctest/doctest.h>

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;
using Action = Termination::Action;
using Step = wire::StopStep;
const Termination::Time t0{100s};

TEST_CASE("termination: a mesh proc is asked, then terminated, then killed, then given up") {
  Termination end(t0, 10s, true);
  CHECK(end.step() == Step::none);
  CHECK(end.next(t0) == Action::ask);
  CHECK(end.step() == Step::asked);
  CHECK(end.next(t0) == Action::none);
  CHECK(end.due() == t0 + 5s);
  CHECK(end.next(t0 + 4999ms) == Action::none);
  CHECK(end.next(t0 + 5s) == Action::term);
  CHECK(end.step() == Step::term);
  CHECK(end.due() == t0 + 10s);
  CHECK(end.next(t0 + 9999ms) == Action::none);
  CHECK(end.next(t0 + 10s) == Action::kill);
  CHECK(end.step() == Step::kill);
  CHECK(end.due() == t0 + 10s + Termination::kill_limit);
  CHECK(end.next(t0 + 11s) == Action::none);
  CHECK(end.next(end.due()) == Action::give_up);
  CHECK(end.next(t0 + 1h) == Action::none);
  CHECK(end.due() == Termination::Time::max());
  CHECK(end.step() == Step::kill);
}

TEST_CASE("termination: a plain proc gets SIGTERM at once") {
  Termination end(t0, 10s, false);
  CHECK(end.next(t0) == Action::term);
  CHECK(end.next(t0) == Action::none);
  CHECK(end.due() == t0 + 10s);
  CHECK(end.next(t0 + 10s) == Action::kill);
}

TEST_CASE("termination: no grace kills at once, asked or not") {
  for (const bool can_ask : {false, true}) {
    Termination end(t0, 0ms, can_ask);
    CHECK(end.next(t0) == Action::kill);
    CHECK(end.next(t0) == Action::none);
    CHECK(end.due() == t0 + Termination::kill_limit);
  }
}

TEST_CASE("termination: a step that time has overtaken is left out") {
  Termination end(t0, 10s, true);
  CHECK(end.next(t0) == Action::ask);
  CHECK(end.next(t0 + 20s) == Action::kill);
  // The kill limit counts from when the signal was sent.
  CHECK(end.due() == t0 + 20s + Termination::kill_limit);
}

TEST_CASE("termination: a question that does not arrive is followed by SIGTERM at once") {
  Termination end(t0, 10s, true);
  CHECK(end.next(t0) == Action::ask);
  end.skip_ask(t0 + 100ms);
  CHECK(end.next(t0 + 100ms) == Action::term);
  CHECK(end.due() == t0 + 10s);
  end.skip_ask(t0 + 200ms);
  CHECK(end.next(t0 + 200ms) == Action::none);
}

TEST_CASE("termination: a second order only hastens") {
  SUBCASE("sooner") {
    Termination end(t0, 10s, true);
    CHECK(end.next(t0) == Action::ask);
    end.shorten(t0 + 1s, 2s);
    CHECK(end.due() == t0 + 2s);
    CHECK(end.next(t0 + 2s) == Action::term);
    CHECK(end.next(t0 + 3s) == Action::kill);
  }
  SUBCASE("later changes nothing") {
    Termination end(t0, 2s, false);
    CHECK(end.next(t0) == Action::term);
    end.shorten(t0 + 1s, 10s);
    CHECK(end.due() == t0 + 2s);
  }
  SUBCASE("at once") {
    Termination end(t0, 10s, false);
    CHECK(end.next(t0) == Action::term);
    end.shorten(t0 + 1s, 0s);
    CHECK(end.next(t0 + 1s) == Action::kill);
    end.shorten(t0 + 2s, 0s);
    CHECK(end.next(t0 + 2s) == Action::none);
  }
}

}  // namespace
}  // namespace meshbus::host
