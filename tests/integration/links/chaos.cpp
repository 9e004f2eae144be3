// Links that are disturbed on purpose (spec 18.4): it ends in time, loses nothing within the
// delivery limit, and doubles nothing.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>

#include "tests/world/two_talkers.h"
#include "wire/chaos_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

const std::vector<Setting> kChaosAllowed = {{"chaos.allowed", "true"}};

/// Has the broker of a talker disturb its link to the other one. Returns the error, if any.
std::optional<Error> disturb(TwoTalkers& two, int side, wire::ChaosKind kind,
                             std::chrono::milliseconds length,
                             std::chrono::milliseconds delay = 0ms) {
  wire::StartChaosT order;
  order.kind = kind;
  order.peer = two.pair.brokers[1 - side]->address().to_string();
  order.for_ms = static_cast<std::uint32_t>(length.count());
  order.delay_ms = static_cast<std::uint32_t>(delay.count());
  std::optional<Result<void>> done;
  Talker& from = side == 0 ? two.a : two.b;
  from.bus->request(Destination::to_broker(), order, 20s,
                    [&](const Result<ControlMessage>& answer) {
                      done = answer ? Result<void>() : Result<void>(fail(answer.error()));
                    });
  REQUIRE(two.pair.loop.until([&] { return done.has_value(); }));
  return *done ? std::nullopt : std::optional(done->error());
}

bool all_has_come(const TwoTalkers& two) {
  return two.a.received == two.b.sent && two.b.received == two.a.sent;
}

}  // namespace

TEST_CASE("links: what chaos cuts, at one end or at both, is up again and has lost nothing") {
  TwoTalkers two(kChaosAllowed);
  two.talk([&] { return two.a.received < 500 || two.b.received < 500; });
  for (int round = 0; round < 6; ++round) {
    const int side = round % 2;
    const auto begin = std::chrono::steady_clock::now();
    CHECK_FALSE(disturb(two, side, wire::ChaosKind::cut, 300ms).has_value());
    if (round % 3 == 0)
      CHECK_FALSE(disturb(two, 1 - side, wire::ChaosKind::cut, 300ms).has_value());
    // 600 may be under way, and what is sent meanwhile waits.
    const auto before = two.a.received + two.b.received;
    two.talk([&] { return two.a.received + two.b.received <= before + 600; });
    CHECK(std::chrono::steady_clock::now() - begin >= 300ms);
    two.talk([&] { return two.a.received + two.b.received < before + 2000; });
  }
  REQUIRE(two.pair.loop.until([&] { return all_has_come(two); }, 30s));
  two.check_sums();
  CHECK(two.a.told.empty());
  CHECK(two.b.told.empty());
}

TEST_CASE("links: a mute link sends nothing one way, and everything when it is over") {
  TwoTalkers two(kChaosAllowed);
  two.talk([&] { return two.a.received < 100 || two.b.received < 100; });
  REQUIRE(two.pair.loop.until([&] { return all_has_come(two); }));
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(disturb(two, 0, wire::ChaosKind::mute, 1s).has_value());
  const auto heard = two.b.received;
  for (int i = 0; i < 50; ++i) two.a.say(two.b, 64);
  for (int i = 0; i < 50; ++i) two.b.say(two.a, 64);
  REQUIRE(two.pair.loop.until([&] { return two.a.received == two.b.sent; }));
  CHECK(two.b.received == heard);
  REQUIRE(two.pair.loop.until([&] { return two.b.received == two.a.sent; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 1s);
  two.check_sums();
}

TEST_CASE("links: with a delay a message comes as much later, until that is over") {
  TwoTalkers two(kChaosAllowed);
  two.talk([&] { return two.a.received < 100 || two.b.received < 100; });
  REQUIRE(two.pair.loop.until([&] { return all_has_come(two); }));
  CHECK_FALSE(disturb(two, 0, wire::ChaosKind::delay, 3s, 400ms).has_value());
  // What the link owes from before, an acknowledgement, has its own turn.
  two.pair.loop.run_for(500ms);
  const auto begin = std::chrono::steady_clock::now();
  two.a.say(two.b, 64);
  REQUIRE(two.pair.loop.until([&] { return two.b.received == two.a.sent; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 390ms);
  two.talk([&] { return two.a.received < 1000 || two.b.received < 1000; });
  REQUIRE(two.pair.loop.until([&] { return all_has_come(two); }));
  two.check_sums();
}

TEST_CASE("links: chaos has bounds, and needs its setting and a link") {
  TwoTalkers closed;
  closed.talk([&] { return closed.b.received < 10; });
  const auto refused = disturb(closed, 0, wire::ChaosKind::cut, 100ms);
  REQUIRE(refused.has_value());
  CHECK(refused->code() == ErrorCode::refused);

  TwoTalkers two({{"chaos.allowed", "true"}, {"chaos.longest", "2s"}});
  const auto no_link = disturb(two, 0, wire::ChaosKind::cut, 100ms);
  REQUIRE(no_link.has_value());
  CHECK(no_link->code() == ErrorCode::not_exist);
  two.talk([&] { return two.b.received < 10; });
  CHECK(disturb(two, 0, wire::ChaosKind::cut, 3s).value().code() == ErrorCode::refused);
  CHECK(disturb(two, 0, wire::ChaosKind::cut, 0ms).value().code() == ErrorCode::out_of_range);
  CHECK(disturb(two, 0, wire::ChaosKind::delay, 1s).value().code() == ErrorCode::out_of_range);
  CHECK(disturb(two, 0, wire::ChaosKind::kill, 1s).value().code() == ErrorCode::out_of_range);
  CHECK_FALSE(disturb(two, 0, wire::ChaosKind::mute, 500ms).has_value());
  CHECK(disturb(two, 0, wire::ChaosKind::cut, 1s).value().code() == ErrorCode::refused);
}
