// Links between real brokers over networks that misbehave: cuts lose nothing and double nothing,
// and after the delivery limit every message has come back or is told to be of unknown fate, once.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/sanitizer_scale.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/linked_brokers.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "tests/world/talker.h"
#include "tests/world/two_talkers.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE(
    "links: 100 resets under load lose nothing, double nothing and keep the order of each pair and "
    "lane") {
  LinkedBrokers pair;
  std::vector<std::unique_ptr<Talker>> talkers[2];
  constexpr std::size_t kPairs = 3;
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < kPairs; ++i)
      talkers[side].push_back(std::make_unique<Talker>(pair.loop, *pair.brokers[side]));
  }
  for (auto& side : talkers) {
    for (auto& talker : side) REQUIRE(pair.loop.until([&] { return talker->bus->is_up(); }));
  }
  std::mt19937_64 random(6);
  const auto pick = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const std::size_t sizes[] = {8, 64, 64, 64, 500, 4000, kInlineLimit + 1};
  const auto load = [&] {
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        Talker& from = *talkers[side][i];
        const Talker& to = *talkers[1 - side][i];
        for (int n = 0; n < 20 && from.sent - to.received < 500; ++n)
          from.say(to, sizes[pick(std::size(sizes))]);
        if (from.sent_control - to.received_control < 50) from.say_control(to);
      }
    }
  };
  const auto all_received = [&] {
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        if (talkers[1 - side][i]->received != talkers[side][i]->sent) return false;
        if (talkers[1 - side][i]->received_control != talkers[side][i]->sent_control) return false;
      }
    }
    return true;
  };
  constexpr int kResets = 100;
  std::chrono::milliseconds longest{0};
  const auto start = std::chrono::steady_clock::now();
  for (int reset = 0; reset < kResets; ++reset) {
    // Under way for a random moment, then cut where it is.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2 + pick(30));
    const auto before = talkers[0][0]->received + talkers[1][0]->received;
    REQUIRE(pair.loop.until([&] {
      load();
      return std::chrono::steady_clock::now() >= until &&
             talkers[0][0]->received + talkers[1][0]->received > before;
    }));
    const auto cut = std::chrono::steady_clock::now();
    if (pick(4) == 0) {
      pair.reset();
    } else {
      pair.proxies[pick(2)].reset();
    }
    const auto heard = talkers[0][0]->received + talkers[1][0]->received;
    REQUIRE(pair.loop.until([&] {
      load();
      return talkers[0][0]->received + talkers[1][0]->received > heard;
    }));
    longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - cut));
  }
  REQUIRE(pair.loop.until(all_received, 30s));
  std::uint64_t sent = 0, sent_control = 0;
  for (auto& side : talkers) {
    for (auto& talker : side) {
      sent += talker->sent;
      sent_control += talker->sent_control;
      INFO((talker->problems.empty() ? std::string() : talker->problems.front()));
      CHECK(talker->problems.empty());
      CHECK(talker->got.size() == talker->received);
      CHECK(talker->got_control == talker->received_control);
      CHECK(talker->told.empty());
      CHECK(talker->told_control == 0);
    }
  }
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  MESSAGE(kResets << " resets in " << elapsed.count() << " ms: " << sent << " data and "
                  << sent_control << " control messages, 0 lost, 0 doubled; "
                  << pair.of_both(&Counters::replayed_frames) << " frames sent again, "
                  << pair.of_both(&Counters::duplicate_frames)
                  << " came twice; longest silence after a reset " << longest.count() << " ms");
  CHECK(pair.of_both(&Counters::replayed_frames) > 0);
  for (const auto& broker : pair.brokers) check_conservation(pair.loop, *broker);
}

TEST_CASE("links: nothing passes for three seconds, and then everything does") {
  TwoTalkers two;
  two.talk([&] { return two.a.received < 1000 || two.b.received < 1000; });
  two.pair.blackhole(true);
  const auto dark = std::chrono::steady_clock::now();
  // What is pushed meanwhile waits too; the broken connection is noticed by the heartbeats.
  two.talk([&] { return std::chrono::steady_clock::now() - dark < 3s; });
  CHECK(two.a.told.empty());
  two.pair.blackhole(false);
  const auto light = std::chrono::steady_clock::now();
  REQUIRE(two.pair.loop.until(
      [&] { return two.a.received == two.b.sent && two.b.received == two.a.sent; }, 30s));
  MESSAGE("back after " << std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::steady_clock::now() - light)
                               .count()
                        << " ms; " << two.pair.of_both(&Counters::replayed_frames)
                        << " frames sent again, " << two.pair.of_both(&Counters::duplicate_frames)
                        << " came twice");
  for (const Talker* one : {&two.a, &two.b}) {
    INFO((one->problems.empty() ? std::string() : one->problems.front()));
    CHECK(one->problems.empty());
    CHECK(one->told.empty());
  }
  two.check_sums();
}

TEST_CASE(
    "links: after the delivery limit every message has come back, or its fate is unknown, once; "
    "then the link works again") {
  TwoTalkers two(std::vector<Setting>{{"delivery.limit", "3s"}});
  two.talk([&] { return two.a.received < 500 || two.b.received < 500; });
  two.pair.blackhole(true);
  const auto dark = std::chrono::steady_clock::now();
  two.talk([&] { return std::chrono::steady_clock::now() - dark < 500ms; });
  const auto outstanding = two.a.bus->traffic().outstanding;
  REQUIRE(outstanding > 0);
  REQUIRE(two.pair.loop.until([&] { return two.is_quiet(); }, 30s));
  const auto told = std::chrono::steady_clock::now() - dark;
  // The limit, another attempt to ask, and what a busy machine adds.
  CHECK(told < 15s * slowness);
  CHECK(all_told(two.a) > 0);
  MESSAGE("of " << two.a.sent << " sent, " << two.b.received << " were received, " << unknown(two.a)
                << " of unknown fate and " << all_told(two.a) - unknown(two.a) << " returned after "
                << std::chrono::duration_cast<std::chrono::milliseconds>(told).count() << " ms");
  // What may have arrived did not, and does not come later.
  two.pair.blackhole(false);
  const auto before = two.b.got.size();
  REQUIRE(two.a.say(two.b, 64));
  REQUIRE(two.pair.loop.until([&] { return two.b.received == two.a.sent; }));
  CHECK(two.b.got.size() == before + 1);
  two.check_sums();
}

TEST_CASE(
    "links: a broker dies and comes back: every message that it had is told of, and none reaches "
    "its next life") {
  TwoTalkers two;
  // More under way than one turn takes.
  two.talk([&] { return two.a.received < 2000 || two.b.received < 2000; }, 5000);
  const auto incarnation = two.pair.brokers[1]->incarnation();
  two.pair.brokers[1].reset();
  REQUIRE(two.pair.loop.until([&] { return !two.b.bus->is_up(); }));
  // Meant for the life that is gone, though nobody knows that here.
  for (int i = 0; i < 100; ++i) two.a.say(two.b, 64);
  const auto sent = two.a.sent;
  two.pair.loop.run_for(50ms);
  two.pair.start(1);
  CHECK(two.pair.brokers[1]->incarnation() != incarnation);
  const auto back = std::chrono::steady_clock::now();
  two.up();
  REQUIRE(two.pair.loop.until([&] { return two.is_quiet(); }, 60s));
  const auto settled = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - back);
  CHECK(two.b.received < sent);
  CHECK(unknown(two.a) > 0);
  // The hundred: returned, or of unknown fate when the dead connection had taken them already.
  CHECK(all_told(two.a) >= 100);
  MESSAGE("to the broker that died: "
          << two.a.sent << " sent, " << two.b.got.size() << " came, " << unknown(two.a)
          << " of unknown fate, " << all_told(two.a) - unknown(two.a)
          << " returned; from its peer: " << two.b.sent << " sent, " << two.a.got.size()
          << " came, " << unknown(two.b) << " of unknown fate, " << all_told(two.b) - unknown(two.b)
          << " returned; all known after " << settled.count() << " ms");
  // Nobody is poisoned. What was lost stays ahead of what came until something new comes.
  const auto came = two.b.got.size(), came_back = two.a.got.size();
  two.talk([&] { return two.b.got.size() < came + 500 || two.a.got.size() < came_back + 500; },
           5000);
  REQUIRE(two.pair.loop.until(
      [&] { return two.a.received == two.b.sent && two.b.received == two.a.sent; }));
  two.check_sums();
}

TEST_CASE(
    "links: what a receiver had not read when it died is told of, and what it had read is not") {
  LinkedBrokers pair;
  Talker sender(pair.loop, *pair.brokers[0]);
  REQUIRE(pair.loop.until([&] { return sender.bus->is_up(); }));
  auto hello = launcher_hello();
  hello.capabilities = 0;
  const ProcId address(pair.brokers[1]->address(), *ProcName::parse(hello.peer));
  auto receiver = std::make_unique<RawPeer>(pair.loop, endpoint_of(*pair.brokers[1]));
  REQUIRE(receiver->greet(hello) == "Welcome");
  // More than its socket holds: some wait in the broker.
  constexpr std::uint32_t kMessages = 2000;
  for (std::uint32_t i = 1; i <= kMessages; ++i) {
    REQUIRE(pair.loop.until([&] {
      return sender.bus->send(Destination::to(address), i, std::string(1000, 'x')).has_value();
    }));
    ++sender.sent;
  }
  REQUIRE(pair.loop.until([&] { return pair.brokers[1]->counters().received >= kMessages; }));
  pair.loop.run_for(100ms);
  receiver.reset();
  REQUIRE(pair.loop.until([&] { return sender.bus->traffic().outstanding == 0; }));
  CHECK(unknown(sender) > 0);
  CHECK(all_told(sender) > unknown(sender));
  CHECK(all_told(sender) == kMessages);
  auto once = sender.told_numbers;
  std::sort(once.begin(), once.end());
  CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
  MESSAGE("of " << kMessages << " sent to a peer that read none: " << unknown(sender)
                << " of unknown fate, " << all_told(sender) - unknown(sender) << " returned");
}

TEST_CASE("links: who does not want to hear of a message does not") {
  LinkedBrokers pair;
  Talker a(pair.loop, *pair.brokers[0]);
  REQUIRE(pair.loop.until([&] { return a.bus->is_up(); }));
  const auto nobody = Destination::to(
      *ProcId::parse(pair.brokers[1]->address().to_string() + ",nobody-13Se1Maqzryj"));
  for (int i = 0; i < 10; ++i) REQUIRE(a.bus->send(nobody, 1, "x", /*no_return=*/true));
  REQUIRE(a.bus->send(nobody, 1, "y"));
  REQUIRE(pair.loop.until([&] { return a.told_numbers.size() == 1; }));
  CHECK(pair.brokers[1]->counters().dropped[static_cast<std::size_t>(Drop::no_return)] == 10);
  CHECK(a.bus->traffic().no_return == 10);
  CHECK(a.bus->traffic().sent.sent == 1);
  CHECK(a.bus->traffic().sent.returned == 1);
}

TEST_CASE("links: a life of a broker that is over is refused in words") {
  LinkedBrokers pair;
  const auto other = *HostAddr::parse("tcp:127.0.0.1:9");
  const auto say_hello = [&](RawPeer& link, std::uint64_t life) {
    auto hello = hello_of(wire::PeerKind::link, other.to_string(), life);
    hello.capabilities = kCapabilityResume;
    link.tell(hello, 0, /*link=*/true);
    return link.next_control();
  };
  RawPeer first(pair.loop, endpoint_of(*pair.brokers[0])),
      second(pair.loop, endpoint_of(*pair.brokers[0])),
      again(pair.loop, endpoint_of(*pair.brokers[0]));
  CHECK(say_hello(first, 5)->body_name() == "Welcome");
  CHECK(say_hello(second, 6)->body_name() == "Welcome");
  const auto refusal = say_hello(again, 5);
  REQUIRE(refusal.has_value());
  REQUIRE(refusal->body_name() == "Refusal");
  CHECK(refusal->body_as<wire::Refusal>()->code() == wire::ErrorCode::identity_mismatch);
}

TEST_CASE("links: numbers that make no sense hurt nobody but their sender") {
  LinkedBrokers pair;
  TestPeer receiver(pair.loop, endpoint_of(*pair.brokers[0]), launcher_hello());
  receiver.up();
  const auto other = *HostAddr::parse("tcp:127.0.0.1:9");
  RawPeer link(pair.loop, endpoint_of(*pair.brokers[0]));
  auto hello = hello_of(wire::PeerKind::link, other.to_string(), 5);
  hello.capabilities = kCapabilityResume;
  link.tell(hello, 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");
  const auto send = [&](std::uint64_t number, std::uint64_t ack, const std::string& body) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(receiver.bus->self()->key());
    envelope.mutate_source_proc(77);
    envelope.mutate_source_host(other.key());
    envelope.mutate_kind(wire::Kind::message);
    envelope.mutate_lane(wire::Lane::data);
    envelope.mutate_flags(kFlagNoReturn);
    FrameWriter writer(wire::Lane::data, /*link=*/true);
    writer.add(envelope, body);
    Frame frame = writer.finish();
    frame.set_link(number, ack);
    link.send(frame);
  };
  send(1, UINT64_MAX, "one");
  send(1, 0, "again");
  send(7, 3, "seven");
  send(3, 0, "late");
  send(UINT64_MAX, 0, "the last");
  send(8, 0, "never");
  send(0, 0, "not numbered");
  REQUIRE(pair.loop.until([&] { return receiver.received.size() >= 4; }));
  pair.loop.run_for(50ms);
  std::vector<std::string> bodies;
  for (const auto& [envelope, body] : receiver.received) bodies.push_back(body);
  CHECK(bodies == std::vector<std::string>{"one", "seven", "the last", "not numbered"});
  CHECK(pair.brokers[0]->counters().duplicate_frames == 3);
  check_conservation(pair.loop, *pair.brokers[0]);
}
