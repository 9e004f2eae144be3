// Unwanted peers do not stay, and cannot connect at any rate (spec 13.3).
#include <doctest/doctest.h>

#include "common/base/log.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/serving_broker.h"
#include "tests/world/strangers_zmtp.h"
#include "wire/frame_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE(
    "strangers: who says no Hello is hung up on, however far he came; who says it late, but in "
    "time, stays") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {},
                                   [](BrokerOptions& options) { options.hello_limit = 700ms; });
  TestPeer peer(loop, endpoint_of(*broker), launcher_hello());
  peer.up();

  RawConnection silent(dir / "b"), half(dir / "b"), shaken(dir / "b");
  REQUIRE(half.write(zmtp_greeting().substr(0, 20)));
  REQUIRE(shaken.begin_handshake());
  const auto start = std::chrono::steady_clock::now();
  CHECK(loop.until([&] { return silent.is_ended() && half.is_ended() && shaken.is_ended(); }));
  CHECK(std::chrono::steady_clock::now() - start >= 500ms);

  TestPeer late(loop, endpoint_of(*broker), launcher_hello());
  late.up();
  loop.run_for(1500ms);  // no registered peer is taken for a stranger
  CHECK(peer.downs + late.downs == 0);
  CHECK(peer.call(late.address(), "both here?") == "re: both here?");
}

TEST_CASE(
    "strangers: who sends without end does not keep others, nor himself, from being hung up on") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {},
                                   [](BrokerOptions& options) { options.hello_limit = 500ms; });
  std::vector<RawConnection> floods;
  for (int i = 0; i < 4; ++i) {
    floods.emplace_back(dir / "b");
    REQUIRE(floods.back().begin_handshake());
  }
  RawConnection silent(dir / "b");
  const std::string commands = [] {
    std::string text;
    for (int i = 0; i < 1000; ++i)
      text += zmtp_frame(std::string(100, 'c'), false, /*is_command=*/true);
    return text;
  }();
  CHECK(loop.until(
      [&] {
        bool is_any = false;
        for (RawConnection& flood : floods) {
          // Whole commands: what does not fit is lost.
          while (flood.is_open() &&
                 flood.write_some(std::string_view(commands).substr(0, 102)) == 102) {
          }
          is_any = is_any || !flood.is_ended();
        }
        return !is_any && silent.is_ended();
      },
      8s));
}

TEST_CASE(
    "strangers: Hellos that came in time are heard, though the broker was away until it was late") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {},
                                   [](BrokerOptions& options) { options.hello_limit = 500ms; });
  std::vector<RawConnection> crowd;
  for (int i = 0; i < 400; ++i) {
    crowd.emplace_back(dir / "b");
    REQUIRE(crowd.back().begin_handshake());
  }
  loop.run_for(20ms);  // all of them are strangers now
  for (RawConnection& one : crowd) {
    FrameWriter writer(wire::Lane::control);
    writer.add(wire::Envelope(), encode_control({.id = 1}, launcher_hello()));
    std::vector<std::string> parts;
    for (const auto& part : writer.finish().parts) parts.emplace_back(part.view());
    REQUIRE(one.send(parts));
  }
  const auto late = std::chrono::steady_clock::now() + 1s;
  REQUIRE(wait_until([&] { return std::chrono::steady_clock::now() >= late; },
                     20s));  // no turn meanwhile
  CHECK(loop.until([&] { return broker->peers() == 400; }));
  loop.run_for(600ms);
  CHECK(broker->peers() == 400);
}

TEST_CASE("strangers: who says nonsense, or was refused, is hung up on before he could say Hello") {
  TempDir dir;
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + (dir / "b"));  // 10 s for a Hello
  RawConnection garbage(dir / "b"), refused(dir / "b"), silent(dir / "b");
  REQUIRE(garbage.begin_handshake());
  REQUIRE(refused.begin_handshake());
  REQUIRE(silent.begin_handshake());
  garbage.send({"no frame at all"});
  // A Hello with a token that nobody made.
  auto hello = proc_hello(broker->address(), 1);
  hello.token.assign(hello.token.size(), 'x');
  wire::Envelope envelope;
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, encode_control({.id = 1}, std::move(hello)));
  std::vector<std::string> parts;
  for (const auto& part : writer.finish().parts) parts.emplace_back(part.view());
  refused.send(parts);
  CHECK(loop.until([&] { return garbage.is_ended() && refused.is_ended(); }, 8s));
  CHECK_FALSE(silent.is_ended());
  CHECK(broker->counters().refused_hellos == 1);
}

TEST_CASE(
    "strangers: an address that opens connections without end is turned away, costs others "
    "nothing, and gets in again") {
  Loop loop;
  ServingBroker broker({}, /*connections_rate=*/"20");
  Bystanders bystanders(loop, broker);
  INFO(broker.process().describe());
  // A hundred at once, and twenty a second: no more than a third of these.
  std::vector<RawConnection> crowd;
  for (int i = 0; i < 400; ++i) crowd.emplace_back(broker.port());
  broker.process().wait_for_output("127.0.0.1 opens more than connections.rate a second", in_time);
  bystanders.call();
  const auto stay = [&] {
    return std::count_if(crowd.begin(), crowd.end(),
                         [](RawConnection& one) { return !one.is_ended(); });
  };
  CHECK(loop.until([&] { return stay() < 250; }, in_time));
  // Peers that connect by another way are not affected.
  TestPeer beside(loop, broker.unix_endpoint(), launcher_hello());
  beside.up();
  TestPeer late(loop, broker.tcp_endpoint(), launcher_hello());
  late.up();
  bystanders.call();
  bystanders.check();
  crowd.clear();
  check_orderly_end(broker);
}
