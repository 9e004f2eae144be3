// What ZeroMQ tools hear of a broker.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "common/base/unique_fd.h"
#include "common/base/unix_address.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "wire/monitor_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

struct Heard {
  std::string topic;
  wire::MonitorEventT event;
};

/// A broker with a monitor, and a plain SUB socket that listens to it.
struct Fixture {
  template <typename... Settings>
  explicit Fixture(const std::string& topic, Settings... settings)
      : dir(),
        broker(start_broker(loop, "unix:" + (dir / "b"), {settings...},
                            [this](BrokerOptions& options) {
                              options.monitor = *HostAddr::parse("unix:" + (dir / "m"));
                            })),
        subscriber(loop.context, zmq::socket_type::sub) {
    subscriber.set(zmq::sockopt::linger, 0);
    subscriber.connect("ipc://" + (dir / "m"));
    subscriber.set(zmq::sockopt::subscribe, topic);
    subscriber.set(zmq::sockopt::subscribe, "counters");
    // The subscription is there when the first counters are.
    REQUIRE(find([](const Heard& one) { return one.topic == "counters"; }) != nullptr);
  }
  std::string endpoint() const { return endpoint_of(*broker); }

  void read() {
    for (;;) {
      zmq::message_t topic;
      zmq::message_t body;
      if (!subscriber.recv(topic, zmq::recv_flags::dontwait)) return;
      REQUIRE(topic.more());
      REQUIRE(subscriber.recv(body, zmq::recv_flags::dontwait).has_value());
      REQUIRE_FALSE(body.more());
      flatbuffers::Verifier verifier(body.data<std::uint8_t>(), body.size());
      REQUIRE(verifier.VerifyBuffer<wire::MonitorEvent>("MBM1"));
      heard.push_back({topic.to_string(), {}});
      flatbuffers::GetRoot<wire::MonitorEvent>(body.data())->UnPackTo(&heard.back().event);
    }
  }
  /// Waits for it.
  const Heard* find(const std::function<bool(const Heard&)>& is_meant) {
    const Heard* found = nullptr;
    loop.until([&] {
      read();
      const auto at = std::find_if(heard.begin(), heard.end(), is_meant);
      if (at != heard.end()) found = &*at;
      return found != nullptr;
    });
    return found;
  }
  const Heard* find(std::string_view topic) {
    return find([topic](const Heard& one) { return one.topic == topic; });
  }
  const wire::BrokerCountersT& counters_when(
      const std::function<bool(const wire::BrokerCountersT&)>& is_meant) {
    const auto* const found = find([&](const Heard& one) {
      return one.topic == "counters" && is_meant(*one.event.body.AsBrokerCounters());
    });
    REQUIRE(found != nullptr);
    return *found->event.body.AsBrokerCounters();
  }

  TempDir dir;
  Loop loop;
  std::unique_ptr<Broker> broker;
  zmq::socket_t subscriber;
  std::deque<Heard> heard;
};

/// While it lives, this process can open 4 more descriptors at most.
class FewDescriptors {
 public:
  FewDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const UniqueFd next(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(next.get()) + 4;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

long threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

}  // namespace

TEST_CASE("broker_monitor: peers that come, leave and are refused") {
  Fixture at("peer.");
  const auto hello = launcher_hello();
  std::string name;
  {
    TestPeer launcher(at.loop, at.endpoint(), hello);
    launcher.up();
    name = launcher.bus->self()->to_string();
    const auto* const up = at.find("peer.up");
    REQUIRE(up != nullptr);
    CHECK(up->event.host == at.broker->address().to_string());
    CHECK(up->event.incarnation == at.broker->incarnation());
    CHECK(up->event.sequence == 1);
    CHECK(up->event.time_ns > 1'600'000'000'000'000'000);
    const auto* const peer = up->event.body.AsPeerUp();
    REQUIRE(peer != nullptr);
    CHECK(peer->peer == name);
    CHECK(peer->kind == wire::PeerKind::launcher);
    CHECK(peer->role == Role::operate);
    CHECK(peer->incarnation == hello.incarnation);
  }
  const auto* const down = at.find("peer.down");
  REQUIRE(down != nullptr);
  CHECK(down->event.body.AsPeerDown()->peer == name);
  CHECK_FALSE(down->event.body.AsPeerDown()->reason.empty());

  auto forged = proc_hello(at.broker->address(), 1);
  forged.token[0] ^= 1;
  RawPeer liar(at.loop, at.endpoint());
  REQUIRE(liar.greet(forged) == "Refusal");
  const auto* const refused = at.find("peer.refused");
  REQUIRE(refused != nullptr);
  CHECK(refused->event.body.AsPeerRefused()->code == wire::ErrorCode::unauthorised);
}

TEST_CASE("broker_monitor: messages that go back, with envelope and reason") {
  Fixture at("undeliverable");
  TestPeer launcher(at.loop, at.endpoint(), launcher_hello());
  launcher.up();
  const auto nobody =
      Destination::to(ProcId(*HostAddr::parse("tcp:192.0.2.1:7"), ProcName(*Name::make("nobody"))));
  REQUIRE(launcher.bus->send(nobody, 5, "lost").has_value());
  const auto* const returned = at.find("undeliverable");
  REQUIRE(returned != nullptr);
  const auto* const message = returned->event.body.AsMessageReturned();
  REQUIRE(message != nullptr);
  CHECK(message->envelope->port() == 5);
  CHECK(message->envelope->length() == 4);
  CHECK(message->envelope->source_proc() == launcher.bus->self()->key());
  CHECK(message->code == wire::ErrorCode::unroutable);
  CHECK_FALSE(message->reason.empty());
}

TEST_CASE("broker_monitor: links, as both ends see them") {
  Fixture at("link.");
  TempDir other_dir;
  auto other = start_broker(at.loop, "unix:" + (other_dir / "b"));
  TestPeer here(at.loop, at.endpoint(), launcher_hello());
  TestPeer there(at.loop, endpoint_of(*other), launcher_hello());
  here.up();
  there.up();
  CHECK(here.call(there.address(), "over") == "re: over");
  const auto* const up = at.find("link.up");
  REQUIRE(up != nullptr);
  CHECK(up->event.body.AsLinkUp()->host == other->address().to_string());
  CHECK_FALSE(up->event.body.AsLinkUp()->inbound);
  CHECK(up->event.body.AsLinkUp()->incarnation == other->incarnation());
  other.reset();
  const auto* const down = at.find("link.down");
  REQUIRE(down != nullptr);
  CHECK(down->event.body.AsLinkDown()->host == up->event.body.AsLinkUp()->host);
}

TEST_CASE("broker_monitor: counters once a second, which add up") {
  Fixture at("none of the topics");
  TestPeer a(at.loop, at.endpoint(), launcher_hello());
  TestPeer b(at.loop, at.endpoint(), launcher_hello());
  a.up();
  b.up();
  for (int i = 0; i < 20; ++i) CHECK(a.call(b.address(), "x") == "re: x");
  const auto& counted = at.counters_when(
      [](const wire::BrokerCountersT& now) { return now.peers == 2 && now.delivered >= 40; });
  CHECK(counted.received + counted.originated ==
        counted.delivered + counted.handled + counted.returned + counted.dropped_no_return +
            counted.dropped_not_needed + counted.dropped_false_source +
            counted.dropped_old_incarnation + counted.fate_unknown + counted.held);
  CHECK(std::all_of(at.heard.begin(), at.heard.end(),
                    [](const Heard& one) { return one.topic == "counters"; }));
  for (std::size_t i = 1; i < at.heard.size(); ++i)
    CHECK(at.heard[i].event.sequence == at.heard[i - 1].event.sequence + 1);
}

TEST_CASE("broker_monitor: a peer that does not read is named, with what waits for it") {
  Fixture at("slow");
  TestPeer sender(at.loop, at.endpoint(), launcher_hello());
  sender.up();
  RawPeer deaf(at.loop, at.endpoint());
  const auto hello = proc_hello(at.broker->address(), 4);
  REQUIRE(deaf.greet(hello) == "Welcome");
  // More than the window of a peer that returns no credit.
  const std::string body(16 * 1024, 'x');
  for (int i = 0; i < 128; ++i)
    REQUIRE(sender.bus->send(Destination::to(*ProcId::parse(hello.peer)), 1, body).has_value());
  const auto* const slow = at.find("slow");
  REQUIRE(slow != nullptr);
  const auto* const queue = slow->event.body.AsQueueState();
  REQUIRE(queue != nullptr);
  CHECK(queue->peer == hello.peer);
  CHECK(queue->waits_ms >= 1000);
  CHECK(queue->messages >= 32);
  CHECK(queue->bytes >= 32 * body.size());
  at.counters_when([&](const wire::BrokerCountersT& now) {
    return now.queues.size() == 1 && now.queues[0]->peer == hello.peer;
  });
}

TEST_CASE("broker_monitor: a subscriber that does not read holds nobody up") {
  Fixture at("undeliverable");
  TestPeer a(at.loop, at.endpoint(), launcher_hello());
  TestPeer b(at.loop, at.endpoint(), launcher_hello());
  a.up();
  b.up();
  const auto nobody =
      Destination::to(ProcId(*HostAddr::parse("tcp:192.0.2.1:7"), ProcName(*Name::make("nobody"))));
  constexpr std::size_t many =
      30000;  // more than the monitor's queue and the subscriber's together
  for (std::size_t i = 0; i < many; ++i) {
    REQUIRE(a.bus->send(nobody, 5, "lost").has_value());
    if (i % 1000 == 0) REQUIRE(a.call(b.address(), "still there") == "re: still there");
  }
  REQUIRE(at.loop.until([&] { return a.returned.size() == many; }));
  at.read();
  const auto seen = static_cast<std::size_t>(
      std::count_if(at.heard.begin(), at.heard.end(),
                    [](const Heard& one) { return one.topic == "undeliverable"; }));
  CHECK(seen > 0);
  CHECK(seen < many);
  // Once there is room what comes is heard again, and its number tells how many were missed.
  constexpr std::uint32_t first_port = 6;
  std::uint32_t port = first_port;
  const auto port_of = [](const Heard& one) {
    return one.event.body.AsMessageReturned()->envelope->port();
  };
  const Heard* later = nullptr;
  REQUIRE(at.loop.until([&] {
    REQUIRE(a.bus->send(nobody, port++, "later").has_value());
    at.read();
    const auto found = std::find_if(at.heard.begin(), at.heard.end(), [&](const Heard& one) {
      return one.topic == "undeliverable" && port_of(one) >= first_port;
    });
    if (found != at.heard.end()) later = &*found;
    return later != nullptr;
  }));
  CHECK(later->event.sequence == many + 1 + (port_of(*later) - first_port));
}

TEST_CASE("broker_monitor: libzmq comes with the first tool, once there are descriptors for it") {
  TempDir dir;
  Loop loop;
  zmq::socket_t subscriber(loop.context, zmq::socket_type::sub);
  subscriber.set(zmq::sockopt::linger, 0);
  const auto before = threads_of_this_process();
  auto broker = start_broker(loop, "unix:" + (dir / "b"), {}, [&](BrokerOptions& options) {
    options.monitor = *HostAddr::parse("unix:" + (dir / "m"));
    options.tap = *HostAddr::parse("unix:" + (dir / "t"));
  });
  CHECK(threads_of_this_process() == before);
  {
    const UnixAddress address(dir / "m");
    const UniqueFd tool(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(tool.get(), address.get(), address.size()) == 0);
    const FewDescriptors few;
    loop.run_for(100ms);
    CHECK(threads_of_this_process() == before);
  }
  CHECK(loop.until([&] { return threads_of_this_process() > before; }));
  subscriber.connect("ipc://" + (dir / "m"));
  subscriber.set(zmq::sockopt::subscribe, "counters");
  zmq::message_t topic;
  CHECK(loop.until([&] { return subscriber.recv(topic, zmq::recv_flags::dontwait).has_value(); }));
  CHECK(topic.to_string() == "counters");
}

TEST_CASE("broker_monitor: a socket for this user alone, gone with the broker; tcp is refused") {
  TempDir dir;
  Loop loop;
  {
    auto broker = start_broker(loop, "unix:" + (dir / "b"), {}, [&](BrokerOptions& options) {
      options.monitor = *HostAddr::parse("unix:" + (dir / "m"));
    });
    const auto mode = std::filesystem::status(dir / "m").permissions();
    CHECK((mode & (std::filesystem::perms::group_all | std::filesystem::perms::others_all)) ==
          std::filesystem::perms::none);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "m"));

  BrokerOptions options;
  options.binds = {*HostAddr::parse("unix:" + (dir / "b"))};
  options.monitor = *HostAddr::parse("tcp:127.0.0.1:0");
  const auto refused = Broker::start(loop.reactor, std::move(options));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::configuration_error);
}
