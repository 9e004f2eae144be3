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
    CHECK(log.count(std::string(name) + ") is refused: observers and clients may ask") == 1);
    // A moment later it may ask again.
    REQUIRE(loop.until([&] { return ask_at_once(host, *peer, 1).answered == 1; }));
  }
  auto operates = attach(host, keys.make(wire::Role::operate, "alice"));
  operates->up();
  CHECK(ask_at_once(host, *operates, 400).answered == 400);
  CHECK(host.counters().refused_messages >= 100);
  check_conservation(loop, *host.broker);
}

TEST_CASE("keys: all connections of one key share what it may ask, and another key has its own share") {
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1", std::nullopt, /*insecure=*/false, {{"requests.rate", "10"}});
  const auto eve = keys.make(wire::Role::observe, "eve");
  auto first = attach(host, eve);
  auto second = attach(host, eve);
  auto other = attach(host, keys.make(wire::Role::observe, "oscar"));
  for (auto& peer : {first.get(), second.get(), other.get()}) peer->up();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(ask_at_once(host, *first, 400).answered >= 100);  // ten seconds' worth
  const auto outcome = ask_at_once(host, *second, 100);
  const auto passed = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
  // What the time since has earned, and no burst of its own.
  CHECK(outcome.answered <= 10 * (passed.count() + 2));
  CHECK(ask_at_once(host, *other, 100).answered == 100);
  check_conservation(loop, *host.broker);
}

TEST_CASE("keys: the links that an observer introduces without end take no place of others") {
  Loop loop;
  KeyFolder keys;
  keys.make(wire::Role::host, "127.0.0.1");
  SafeHost host(loop, keys, "127.0.0.1", std::nullopt, /*insecure=*/false, {{"requests.rate", "0"}});
  const auto introduction = [](int port) {
    wire::IntroduceT introduce;
    introduce.host = "tcp:127.0.0.1:" + std::to_string(port);
    return introduce;
  };
  constexpr int kFirst = 20000, kHosts = 17000;  // more than a broker has links
  auto alice = attach(host, keys.make(wire::Role::operate, "alice"));
  auto eve = attach(host, keys.make(wire::Role::observe, "eve"));
  alice->up();
  eve->up();
  CHECK(alice->ask(Destination::to_broker(), introduction(kFirst - 1))->body_name() == "Ack");
  int acknowledged = 0, refused = 0;
  for (int i = 0; i < kHosts; ++i) {
    eve->bus->request(Destination::to_broker(), introduction(kFirst + i), 60s,
                      [&](const Result<ControlMessage>& answer) { ++(answer ? acknowledged : refused); });
    if (i % 500 == 0) REQUIRE(loop.until([&] { return acknowledged + refused + 500 > i; }));
  }
  REQUIRE(loop.until([&] { return acknowledged + refused == kHosts; }, 60s));
  CHECK(refused == 0);
  // The broker still knows alice's host, which does not answer.
  const auto there = *HostAddr::parse("tcp:127.0.0.1:" + std::to_string(kFirst - 1));
  const auto outcome = alice->call(Destination::to(host_service(there)), "?", 10s);
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code() == ErrorCode::host_unreachable);
}
