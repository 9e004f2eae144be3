#include "agent/host/model/termination.h"

#include <doctest/doctest.h>

#include "wire/codes_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;
using Action = Termination::Action;
using Step = wire::StopStep;
const Termination::Time kOrder{100s};

TEST_CASE("termination: a mesh proc is asked, then terminated, then killed, then given up") {
  Termination end(kOrder, 10s, true);
  CHECK(end.step() == Step::none);
  CHECK(end.next(kOrder) == Action::ask);
  CHECK(end.step() == Step::asked);
  CHECK(end.next(kOrder) == Action::none);
  CHECK(end.due() == kOrder + 5s);
  CHECK(end.next(kOrder + 4999ms) == Action::none);
  CHECK(end.next(kOrder + 5s) == Action::term);
  CHECK(end.step() == Step::term);
  CHECK(end.due() == kOrder + 10s);
  CHECK(end.next(kOrder + 9999ms) == Action::none);
  CHECK(end.next(kOrder + 10s) == Action::kill);
  CHECK(end.step() == Step::kill);
  CHECK(end.due() == kOrder + 10s + Termination::kKillLimit);
  CHECK(end.next(kOrder + 11s) == Action::none);
  CHECK(end.next(end.due()) == Action::give_up);
  CHECK(end.next(kOrder + 1h) == Action::none);
  CHECK(end.due() == Termination::Time::max());
  CHECK(end.step() == Step::kill);
}

TEST_CASE("termination: a plain proc gets SIGTERM at once") {
  Termination end(kOrder, 10s, false);
  CHECK(end.next(kOrder) == Action::term);
  CHECK(end.next(kOrder) == Action::none);
  CHECK(end.due() == kOrder + 10s);
  CHECK(end.next(kOrder + 10s) == Action::kill);
}

TEST_CASE("termination: no grace kills at once, asked or not") {
  for (const bool can_ask : {false, true}) {
    Termination end(kOrder, 0ms, can_ask);
    CHECK(end.next(kOrder) == Action::kill);
    CHECK(end.next(kOrder) == Action::none);
    CHECK(end.due() == kOrder + Termination::kKillLimit);
  }
}

TEST_CASE("termination: a step that time has overtaken is left out") {
  Termination end(kOrder, 10s, true);
  CHECK(end.next(kOrder) == Action::ask);
  CHECK(end.next(kOrder + 20s) == Action::kill);
  // The kill limit counts from when the signal was sent.
  CHECK(end.due() == kOrder + 20s + Termination::kKillLimit);
}

TEST_CASE("termination: a question that does not arrive is followed by SIGTERM at once") {
  Termination end(kOrder, 10s, true);
  CHECK(end.next(kOrder) == Action::ask);
  end.skip_ask(kOrder + 100ms);
  CHECK(end.next(kOrder + 100ms) == Action::term);
  CHECK(end.due() == kOrder + 10s);
  end.skip_ask(kOrder + 200ms);
  CHECK(end.next(kOrder + 200ms) == Action::none);
}

TEST_CASE("termination: a second order only hastens") {
  SUBCASE("sooner") {
    Termination end(kOrder, 10s, true);
    CHECK(end.next(kOrder) == Action::ask);
    end.shorten(kOrder + 1s, 2s);
    CHECK(end.due() == kOrder + 2s);
    CHECK(end.next(kOrder + 2s) == Action::term);
    CHECK(end.next(kOrder + 3s) == Action::kill);
  }
  SUBCASE("later changes nothing") {
    Termination end(kOrder, 2s, false);
    CHECK(end.next(kOrder) == Action::term);
    end.shorten(kOrder + 1s, 10s);
    CHECK(end.due() == kOrder + 2s);
  }
  SUBCASE("at once") {
    Termination end(kOrder, 10s, false);
    CHECK(end.next(kOrder) == Action::term);
    end.shorten(kOrder + 1s, 0s);
    CHECK(end.next(kOrder + 1s) == Action::kill);
    end.shorten(kOrder + 2s, 0s);
    CHECK(end.next(kOrder + 2s) == Action::none);
  }
}

}  // namespace
}  // namespace meshbus::host
