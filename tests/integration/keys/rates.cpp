// How often those may ask who are trusted with nothing but looking (spec 13.3).
#include <doctest/doctest.h>

#include "tests/integration/keys/fixture.h"

#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

struct Outcome {
  int answered = 0, told_to_wait = 0, other = 0;
};

/// What becomes of so many requests that leave together.
Outcome ask_at_once(SafeHost& host, TestPeer& peer, int requests) {
  Outcome outcome;
  for (int i = 0; i < requests; ++i) {
    wire::IntroduceT introduce;
    introduce.host = host.address().to_string();
    peer.bus->request(Destination::to_broker(), std::move(introduce), 20s, [&](const Result<ControlMessage>& answer) {
      if (answer) return static_cast<void>(++outcome.answered);
      ++(answer.error().code() == ErrorCode::queue_full ? outcome.told_to_wait : outcome.other);
      CHECK(answer.error().detail().find("requests.rate") != std::string::npos);
    });
  }
  REQUIRE(host.loop.until([&] { return outcome.answered + outcome.told_to_wait + outcome.other == requests; }));
  return outcome;
}

}  // namespace

TEST_CASE("keys: an observer or client that asks without end is told to wait; an operator is not") {
  const LogLines log;
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1", std::nullopt, /*insecure=*/false, {{"requests.rate", "10"}});
  for (const auto& [role, name] : {std::pair{wire::Role::observe, "eve"}, {wire::Role::proc, "carl"}}) {
    INFO(name);
    auto peer = attach(host, keys.make(role, name));
    peer->up();
    const auto outcome = ask_at_once(host, *peer, 400);
    CHECK(outcome.other == 0);
    CHECK(outcome.answered >= 100);  // ten seconds' worth
    CHECK(outcome.told_to_wait >= 50);
    CHECK(log.count(std::string(name) + ") is refused: whoever is no operator") == 1);
    // A moment later it may ask again.
    REQUIRE(loop.until([&] { return ask_at_once(host, *peer, 1).answered == 1; }));
  }
  auto operates = attach(host, keys.make(wire::Role::operate, "alice"));
  operates->up();
  CHECK(ask_at_once(host, *operates, 400).answered == 400);
  CHECK(host.counters().refused_messages >= 100);
  check_conservation(loop, *host.broker);
}
