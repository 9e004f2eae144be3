// Peers of other releases: they work together, or say which one is too old.
#include <doctest/doctest.h>

#include "common/base/log.h"
#include "common/loop/zmq_watch.h"
#include "tests/integration/proc/harness.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/command_line.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

const Protocol kOlder{1, 1, "0.1.0"};
const Protocol kNewer{3, 2, "0.3.0"};
/// Newer, and speaks what the older one does.
const Protocol kTolerant{2, 1, "0.2.0"};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct OneHost {
  explicit OneHost(const Protocol& protocol, int index = 0, Loop* shared = nullptr)
      : loop(shared == nullptr ? own : *shared) {
    broker = start_broker(loop, "unix:" + (dir / std::to_string(index)),
                          {{"delivery.starting", "300ms"}},
                          [&](BrokerOptions& options) { options.protocol = protocol; });
  }
  TempDir dir;
  Loop own;
  Loop& loop;
  std::unique_ptr<Broker> broker;
};

wire::HelloT hello_of(const Protocol& protocol) {
  auto hello = launcher_hello();
  announce(hello, protocol);
  return hello;
}

/// What the log says while it lives.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, std::string_view line) { text.append(line).append("\n"); },
                  log::Level::warn);
  }
  ~LogLines() { log::set_sink({}, log::Level::warn); }
  std::string text;
};

/// How a broker of that release answers a launcher of the other one.
std::string refusal(const Protocol& broker, const Protocol& peer) {
  LogLines log;
  OneHost host(broker);
  TestPeer launcher(host.loop, endpoint_of(*host.broker), hello_of(peer));
  REQUIRE(host.loop.until([&] { return launcher.refused || launcher.bus->is_up(); }));
  REQUIRE(launcher.refused.has_value());
  CHECK(launcher.refused->code() == ErrorCode::version_mismatch);
  CHECK(host.broker->peers() == 0);
  // The host's people read the same.
  INFO(log.text);
  CHECK(has(log.text, "a peer is refused: version_mismatch: launcher client-"));
  CHECK(has(log.text, "update the older one"));
  return launcher.refused->detail();
}

/// A broker that is not ours: it answers everything that it gets with these bytes.
class ForeignBroker {
 public:
  ForeignBroker(Loop& loop, const std::string& endpoint, std::string answer)
      : loop_(loop), socket_(loop.context, zmq::socket_type::router), answer_(std::move(answer)) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind(endpoint);
    watch_zmq(loop_.reactor, socket_.handle(), [this] { return on_readable(); });
  }
  ~ForeignBroker() { loop_.reactor.forget_socket(socket_.handle()); }

 private:
  bool on_readable() {
    for (;;) {
      zmq::message_t from;
      zmq::message_t frame;
      if (!socket_.recv(from, zmq::recv_flags::dontwait)) return false;
      if (!socket_.recv(frame, zmq::recv_flags::dontwait)) return false;
      socket_.send(from, zmq::send_flags::sndmore);
      socket_.send(zmq::buffer(answer_), zmq::send_flags::none);
    }
  }
  Loop& loop_;
  zmq::socket_t socket_;
  std::string answer_;
};

std::string frame_of_welcome(std::uint16_t version) {
  wire::WelcomeT welcome;
  welcome.version = version;
  welcome.host = "unix:/elsewhere";
  welcome.role = Role::operate;
  welcome.heartbeat_ms = 5000;
  welcome.release = "9.0.0";
  wire::Envelope envelope;
  envelope.mutate_role(Role::broker);
  FrameWriter writer(wire::Lane::control);
  writer.add(envelope, encode_control({}, std::move(welcome)));
  return std::string(writer.finish().parts.front().view());
}

/// What one of our peers says to a broker that answers so.
Error refused_by_peer(const std::string& answer) {
  TempDir dir;
  Loop loop;
  const auto endpoint = "ipc://" + (dir / "bus");
  ForeignBroker broker(loop, endpoint, answer);
  auto hello = launcher_hello();
  hello.version = 0;  // as this build speaks
  TestPeer peer(loop, endpoint, std::move(hello));
  REQUIRE(loop.until([&] { return peer.refused || peer.bus->is_up(); }));
  REQUIRE(peer.refused.has_value());
  return *peer.refused;
}

/// Runs `meshbus WORDS...` beside the loop.
Finished run_beside(Loop& loop, const Words& words) {
  const auto start = std::chrono::steady_clock::now();
  Process process(cli(words));
  REQUIRE(loop.until([&] { return !process.is_running(); }, in_time));
  const auto status = process.wait_exit(in_time);
  const auto elapsed =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  return {status, process.out(), process.err(), elapsed};
}

}  // namespace

TEST_CASE("version: peers whose versions overlap speak the newest that both have") {
  for (const auto& [broker, peer, expected] :
       std::vector<std::tuple<Protocol, Protocol, int>>{{kOlder, kTolerant, 1},
                                                        {kTolerant, kOlder, 1},
                                                        {kTolerant, kTolerant, 2},
                                                        {kTolerant, kNewer, 2},
                                                        {kNewer, kTolerant, 2}}) {
    OneHost host(broker);
    RawPeer launcher(host.loop, endpoint_of(*host.broker));
    auto hello = hello_of(peer);
    hello.capabilities = ~0ULL;  // whatever these may be one day
    launcher.tell(std::move(hello));
    const auto answer = launcher.next_control();
    REQUIRE(answer.has_value());
    const auto* welcome = answer->body_as<wire::Welcome>();
    REQUIRE(welcome != nullptr);
    CHECK(welcome->version() == expected);
    CHECK(welcome->capabilities() == kCapabilities);
    CHECK(text_of(welcome->release()) == broker.release);
  }
}

TEST_CASE("version: a peer that says nothing of an oldest version speaks one only") {
  OneHost host(kOlder);
  auto hello = launcher_hello();
  for (const int version : {0, 2, 65535}) {
    hello.version = static_cast<std::uint16_t>(version);
    RawPeer launcher(host.loop, endpoint_of(*host.broker));
    CHECK(launcher.greet(hello) == "Refusal");
  }
  hello.version = 1;
  RawPeer other(host.loop, endpoint_of(*host.broker));
  CHECK(other.greet(hello) == "Welcome");
}

TEST_CASE("version: an older broker refuses a newer peer in words, and the other way round") {
  const auto newer_peer = refusal(kOlder, kNewer);
  INFO(newer_peer);
  CHECK(has(newer_peer,
            " speaks versions 2 to 3 (meshbus 0.3.0) of the protocol, the broker of unix:"));
  CHECK(has(newer_peer, " version 1 (meshbus 0.1.0); update the older one, the broker of unix:"));

  const auto older_peer = refusal(kNewer, kOlder);
  INFO(older_peer);
  CHECK(has(older_peer, " speaks version 1 (meshbus 0.1.0) of the protocol, the broker of unix:"));
  CHECK(
      has(older_peer, " versions 2 to 3 (meshbus 0.3.0); update the older one, launcher client-"));

  // Versions that make no sense are refused like any other.
  CHECK(has(refusal(kOlder, {65535, 65535, std::string(100'000, 'x')}), "... (cut))"));
}

TEST_CASE("version: a peer gives up on a broker that speaks what it does not, and says so") {
  const auto welcome = refused_by_peer(frame_of_welcome(9));
  CHECK(welcome.code() == ErrorCode::version_mismatch);
  CHECK(has(welcome.detail(), "this side speaks version 1 (meshbus " + std::string(this_release()) +
                                  ") of the protocol, the broker of unix:/elsewhere version 9 "
                                  "(meshbus 9.0.0); update the older one, this side"));
  auto frame = frame_of_welcome(1);
  frame[2] = 2;
  const auto layout = refused_by_peer(frame);
  CHECK(layout.code() == ErrorCode::version_mismatch);
  INFO(layout.detail());
  CHECK(has(layout.detail(), "/bus: frames of layout 2, this side (meshbus " +
                                 std::string(this_release()) + ") reads layout 1"));
}

TEST_CASE(
    "version: links between brokers of other versions come up, or each message comes back saying "
    "why") {
  OneHost a(kOlder);
  const auto call = [&](OneHost& from, OneHost& to, const Protocol& from_protocol) {
    TestPeer launcher(a.loop, endpoint_of(*from.broker), hello_of(from_protocol));
    launcher.up();
    return launcher.call(Destination::to_broker(to.broker->address()), "x");
  };
  {
    OneHost b(kTolerant, 1, &a.loop);
    TestPeer here(a.loop, endpoint_of(*a.broker), hello_of(kOlder));
    TestPeer there(a.loop, endpoint_of(*b.broker), hello_of(kTolerant));
    here.up();
    there.up();
    CHECK(here.call(there.address(), "hello") == "re: hello");
    CHECK(there.call(here.address(), "hello") == "re: hello");
  }
  OneHost b(kNewer, 2, &a.loop);
  const auto there = call(a, b, kOlder);
  REQUIRE_FALSE(there.has_value());
  INFO(there.error().to_string());
  CHECK(there.error().code() == ErrorCode::version_mismatch);
  CHECK(has(there.error().detail(), "the broker of " + a.broker->address().to_string() +
                                        " speaks version 1 (meshbus 0.1.0) of the protocol"));
  CHECK(has(there.error().detail(), "the broker of " + b.broker->address().to_string() +
                                        " versions 2 to 3 (meshbus 0.3.0)"));
  const auto back = call(b, a, kNewer);
  REQUIRE_FALSE(back.has_value());
  CHECK(back.error().code() == ErrorCode::version_mismatch);
  CHECK(has(back.error().detail(),
            "update the older one, the broker of " + a.broker->address().to_string()));
}

TEST_CASE("version: meshbus run says that a host is of another release, and ends") {
  OneHost newer(kNewer);
  const auto address = newer.broker->address().to_string();
  const auto begin = std::chrono::steady_clock::now();
  const auto run = run_beside(newer.loop, {"run", "--hosts", address, "-n", "1", "--", "true"});
  CHECK(std::chrono::steady_clock::now() - begin <
        10s * slowness);  // no waiting for what cannot come
  INFO(run.err);
  CHECK(run.status == ExitStatus::exited(125));
  CHECK(has(run.err, "version_mismatch: "));
  CHECK(
      has(run.err, "speaks version 1 (meshbus " + std::string(this_release()) +
                       ") of the protocol, the broker of " + address +
                       " versions 2 to 3 (meshbus 0.3.0); update the older one, launcher client-"));
}

TEST_CASE("version: a mesh proc that was linked with another release says so before it connects") {
  ProcHarness newer({.protocol = kNewer});
  newer.start(0, {"serve"});
  CHECK(newer.wait_exit(0) == ExitStatus::exited(78));
  INFO(newer.process(0).err());
  CHECK(has(newer.process(0).err(), "this program speaks version 1 (meshbus " +
                                        std::string(this_release()) +
                                        ") of the protocol, its host versions 2 to 3 (meshbus "
                                        "0.3.0); update the older one, this program"));
  ProcHarness tolerant({.protocol = kTolerant});
  tolerant.start(0, {"serve"});
  tolerant.wait_ready(0);
}
