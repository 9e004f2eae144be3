#include "meshbus/status_wait.h"

#include <doctest/doctest.h>

using namespace meshbus;
using namespace std::chrono_literals;
using Kind = Status::Kind;
using WaitState = StatusWait::State;

namespace {

constexpr StatusWait::Time began{100s};

Region ranks(std::uint64_t count) {
  return Extent::make({{"x", count}}).value();
}

void tell(StatusWait& wait, std::string_view news, StatusWait::Time now) {
  REQUIRE(wait.merge(parse_statuses(news).value(), now).has_value());
}

}  // namespace

TEST_CASE("status_wait: complete when every rank has got there, by failing too") {
  StatusWait wait(ranks(3), Kind::running, {.deadline = 30s, .idle = 10s}, began);
  CHECK(wait.check(began) == WaitState::waiting);
  tell(wait, "Running=0..1;Initializing=1..3", began + 1s);
  tell(wait, "Running=1..2;Failed=2..3", began + 2s);
  CHECK(wait.check(began + 1h) == WaitState::complete);
  CHECK_FALSE(wait.next_due().has_value());
  CHECK(wait.outcome(began + 2s).has_value());
  CHECK(to_string(wait.statuses()) == "Running=0..2;Failed=2..3");
  CHECK(StatusWait(ranks(0), Kind::running, {}, began).check(began) == WaitState::complete);
}

TEST_CASE("status_wait: the deadline names who is missing") {
  StatusWait wait(ranks(8), Kind::running, {.deadline = 30s}, began);
  tell(wait, "Running=0..5;Initializing=5..7;Unknown=7..8", began + 1s);
  CHECK(wait.next_due() == began + 30s);
  CHECK(wait.check(began + 30s - 1ns) == WaitState::waiting);
  CHECK(wait.check(began + 30s) == WaitState::deadline);
  CHECK(wait.outcome(began + 30s).error().to_string() ==
        "timeout: not within 30s: 3 of 8 ranks have not reached Running: "
        "Unknown=7..8;Initializing=5..7");
  CHECK(wait.outcome(began).error().detail() ==
        "not yet: 3 of 8 ranks have not reached Running: Unknown=7..8;Initializing=5..7");
}

TEST_CASE("status_wait: what repeats old news does not count as a change") {
  StatusWait wait(ranks(4), Kind::stopped, {.deadline = 30s, .idle = 10s}, began);
  CHECK(wait.next_due() == began + 10s);
  tell(wait, "Running=0..4", began + 8s);
  CHECK(wait.next_due() == began + 18s);
  tell(wait, "Running=0..4", began + 12s);
  REQUIRE(wait.set(2, Kind::running, began + 13s).has_value());
  CHECK(wait.next_due() == began + 18s);
  REQUIRE(wait.set(2, Kind::stopped, began + 14s).has_value());
  CHECK(wait.check(began + 24s - 1ns) == WaitState::waiting);
  CHECK(wait.check(began + 24s) == WaitState::idle);
  CHECK(wait.outcome(began + 24s).error().detail() ==
        "no change for 10s: 3 of 4 ranks have not reached Stopped: Running=0..2,3..4");
  tell(wait, "Stopping=0..1", began + 23s);
  CHECK(wait.next_due() == began + 30s);  // the deadline now
}

TEST_CASE("status_wait: no limits, endless limits, and ranks that are not there") {
  StatusWait patient(ranks(2), Kind::running, {}, began);
  CHECK_FALSE(patient.next_due().has_value());
  CHECK(patient.check(began + 10000h) == WaitState::waiting);
  StatusWait endless(
      ranks(2), Kind::running,
      {.deadline = std::chrono::milliseconds::max(), .idle = std::chrono::milliseconds::max()},
      began);
  CHECK(endless.check(began + 10000h) == WaitState::waiting);
  CHECK(*endless.next_due() > began + 10000h);
  CHECK(StatusWait(ranks(2), Kind::running, {.deadline = -1s}, began).check(began) ==
        WaitState::deadline);
  CHECK(patient.set(2, Kind::running, began).error().code() == ErrorCode::out_of_range);
  CHECK(patient.merge(parse_statuses("Running=0..3").value(), began).error().code() ==
        ErrorCode::out_of_range);
  CHECK(to_string(patient.statuses()) == "NotExist=0..2");
}

TEST_CASE(
    "status_wait: an error stays readable when very many ranks are missing in between others") {
  StatusWait wait(ranks(100'000), Kind::running, {.deadline = 1s}, began);
  for (std::uint64_t rank = 0; rank < 100'000; rank += 2)
    REQUIRE(wait.set(rank, Kind::running, began).has_value());
  const std::string text = wait.outcome(began + 1s).error().detail();
  CHECK(text.size() < 500);
  CHECK(text.find("50000 of 100000 ranks have not reached Running: NotExist=1..2,3..4,") !=
        std::string::npos);
  CHECK(text.find("; and 49984 more ranks, up to rank 99999") != std::string::npos);
}
