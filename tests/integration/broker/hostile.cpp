// What strangers and registered peers may send must not hurt the broker (spec 13.3).
#include <doctest/doctest.h>

#include <random>

#include "common/base/log.h"
#include "tests/support/body_union.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// The parts of a frame with messages of many kinds, as a peer would send it.
std::vector<std::string> some_frame(std::mt19937& random, std::uint64_t to) {
  FrameWriter writer(random() % 2 == 0 ? wire::Lane::control : wire::Lane::data);
  const auto count = random() % 4;
  for (unsigned i = 0; i < count; ++i) {
    wire::Envelope envelope;
    envelope.mutate_destination_proc(random() % 3 == 0 ? 0 : to);
    envelope.mutate_destination_host(random() % 8 == 0 ? random() : 0);
    envelope.mutate_kind(static_cast<wire::Kind>(random() % 5));
    envelope.mutate_sequence(random());
    std::string body(random() % 200, 'b');
    if (random() % 20 == 0) body.resize(40000);
    if (random() % 2 == 0) {
      wire::BodyUnion any;
      switch (random() % 5) {
        case 0: any.Set(launcher_hello()); break;
        case 1: any.Set(wire::HeartbeatT()); break;
        case 2: any.Set(wire::IntroduceT{}); break;
        case 3: any.Set(wire::WatchT{}); break;
        default: any.Set(wire::UndeliverableT{}); break;
      }
      if (auto* introduce = any.AsIntroduce()) introduce->host = "unix:/some/where";
      if (auto* watch = any.AsWatch()) watch->proc = "unix:/some/where,p-13Se1Maqzryj";
      if (auto* undeliverable = any.AsUndeliverable())
        undeliverable->envelope = std::make_unique<wire::Envelope>();
      body = encode_union({.id = random() % 3}, any);
    }
    writer.add(envelope, body);
  }
  Frame frame = writer.finish();
  std::vector<std::string> parts;
  for (auto& part : frame.parts) parts.emplace_back(part.view());
  return parts;
}

void spoil(std::mt19937& random, std::vector<std::string>& parts) {
  auto& part = parts[random() % parts.size()];
  switch (random() % 6) {
    case 0: part.resize(random() % (part.size() + 1)); break;
    case 1: parts.emplace_back(random() % 100, 'x'); break;
    case 2:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(random() % parts.size()));
      break;
    default:
      for (unsigned i = 0; i < 1 + random() % 4 && !part.empty(); ++i)
        part[random() % part.size()] = static_cast<char>(random());
      break;
  }
  if (parts.empty()) parts.emplace_back();
}

}  // namespace

TEST_CASE("broker: garbage, truncated and altered frames neither crash it nor disturb others") {
  TempDir dir;
  // Each of the thousands is worth a line, which nobody wants to read here.
  log::set_sink([](log::Level, std::string_view) {}, log::Level::error);
  const std::unique_ptr<void, void (*)(void*)> restore(
      &dir, [](void*) { log::set_sink({}, log::Level::warn); });
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"),
                                   {{"delivery.starting", "100ms"}, {"queue.bytes", "256KiB"}});
  TestPeer a(loop, endpoint_of(*broker), launcher_hello());
  TestPeer b(loop, endpoint_of(*broker), launcher_hello());
  a.up();
  b.up();
  RawPeer stranger(loop, endpoint_of(*broker));
  RawPeer peer(loop, endpoint_of(*broker));
  RawPeer link(loop, endpoint_of(*broker));
  REQUIRE(peer.greet(launcher_hello()) == "Welcome");
  link.tell(hello_of(wire::PeerKind::link, "unix:/other/host"), 0, /*link=*/true);
  REQUIRE(link.next_control()->body_name() == "Welcome");

  std::mt19937 random(20260101);
  for (int round = 0; round < 3000; ++round) {
    for (RawPeer* sender : {&stranger, &peer, &link}) {
      std::vector<std::string> parts;
      if (random() % 4 == 0) {
        for (unsigned i = 0; i < 1 + random() % 3; ++i) {
          parts.emplace_back(random() % 300, '\0');
          for (char& c : parts.back()) c = static_cast<char>(random());
        }
      } else {
        parts = some_frame(random, a.bus->self()->key());
        if (random() % 4 != 0) spoil(random, parts);
      }
      sender->send(parts);
    }
    if (round % 50 == 0) {
      loop.reactor.turn(0ms);
      while (peer.next(0ms) || link.next(0ms) || stranger.next(0ms)) {
      }
    }
  }
  auto answer = b.call(a.address(), "still there?");
  // Frames of the strangers that are not malformed are for `a`, and may have filled its queue: then
  // it has to read first.
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!answer && answer.error().code() == ErrorCode::queue_full &&
         std::chrono::steady_clock::now() < end) {
    loop.run_for(1ms);
    answer = b.call(a.address(), "still there?");
  }
  INFO((answer ? std::string() : answer.error().to_string()));
  CHECK(answer == "re: still there?");
  CHECK(broker->counters().malformed_frames > 1000);
  check_conservation(loop, *broker);
}

TEST_CASE("broker: a message of very many parts ends its connection, and counts as unusable") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"));
  RawPeer peer(loop, endpoint_of(*broker));
  REQUIRE(peer.greet(launcher_hello()) == "Welcome");
  peer.send({""});
  peer.send(std::vector<std::string>(5000, "x"));
  REQUIRE(loop.until([&] { return broker->peers() == 0; }));
  CHECK(broker->counters().ignored_frames == 1);
  CHECK(broker->counters().malformed_frames == 1);
}

TEST_CASE("broker: a part above the limit ends that connection, and no other") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"));
  TestPeer good(loop, endpoint_of(*broker), launcher_hello());
  good.up();
  RawPeer peer(loop, endpoint_of(*broker));
  REQUIRE(peer.greet(launcher_hello()) == "Welcome");
  peer.send({std::string(kPartLimit + 1, 'x')});
  REQUIRE(loop.until([&] { return broker->peers() == 1; }));
  CHECK(good.bus->is_up());
}

TEST_CASE("broker: waiting messages are bounded in number and bytes") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {{"delivery.starting", "60s"}});
  TestPeer peer(loop, endpoint_of(*broker), launcher_hello());
  peer.up();
  const std::string body(kBodyLimit, 'x');
  for (std::uint64_t i = 0; i < 20; ++i)
    REQUIRE(
        peer.bus
            ->send(Destination{.proc = 100 + i, .host = broker->address().key(), .host_text = {}},
                   1, body)
            .has_value() == (i < 15));
  REQUIRE(loop.until([&] { return broker->held() >= 15; }));
  for (std::uint64_t i = 0; i < 5; ++i)
    REQUIRE(
        peer.bus
            ->send(Destination{.proc = 200 + i, .host = broker->address().key(), .host_text = {}},
                   1, body)
            .has_value());
  REQUIRE(loop.until([&] { return peer.returned.size() == 5; }));
  CHECK(peer.returned[0].second.code() == ErrorCode::queue_full);
  CHECK(peer.returned[0].second.detail().find("too many") != std::string::npos);
}
