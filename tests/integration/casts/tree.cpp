// Large casts to more hosts than cast.width, whose bodies go by a tree of hosts
// (schemas/relay.fbs).
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "broker/casts/cast_assembly.h"
#include "common/wire/wire_region.h"
#include "tests/world/cast_mesh.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"
#include "wire/relay_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kHosts = 20;
/// Host 0 sends to hosts 1, 8 and 14, each of these to three of those behind it.
std::vector<Setting> narrow(const std::string& delivery_limit) {
  return {{"cast.width", "3"}, {"delivery.starting", "200ms"}, {"delivery.limit", delivery_limit}};
}

/// One rank on each of many hosts, all of them linked with host 0.
struct Tree : CastMesh {
  explicit Tree(std::optional<std::size_t> separate = {}, const std::string& delivery_limit = "30s",
                std::size_t hosts = kHosts)
      : CastMesh(hosts, 1, {.settings = narrow(delivery_limit), .process = separate}) {
    CHECK(codes_of(call(*ref, "hello")) == std::set<std::string>{"answer"});
    for (auto& proc : procs) proc->received.clear();
  }
  std::vector<std::string> bodies(std::uint64_t rank) const {
    std::vector<std::string> bodies;
    for (const auto& [envelope, body] : procs[rank]->received) bodies.push_back(body);
    return bodies;
  }
  std::string first_return() const {
    return launcher->returned.empty() ? "" : launcher->returned.front().second.to_string();
  }
  bool is_quiet() const { return launcher->bus->traffic().outstanding == 0; }
};

/// A body that is detached and says which it is.
std::string large(std::size_t number) {
  return std::to_string(number) + std::string(70'000 + number % 7 * 1000, '.');
}

/// What says that it is a broker, linked with a host of a mesh.
struct Stranger {
  Stranger(CastMesh& mesh, std::size_t host)
      : address(*HostAddr::parse("unix:" + (mesh.dir / "stranger"))),
        link(mesh.loop, mesh.endpoint(host)) {
    auto hello = hello_of(wire::PeerKind::link, address.to_string(), 5);
    hello.capabilities = kCapabilityResume | kCapabilityRelay;
    link.tell(hello, 0, /*link=*/true);
    const auto welcome = link.next_control();
    REQUIRE(welcome.has_value());
    REQUIRE(welcome->body_name() == "Welcome");
  }
  void send(wire::Envelope envelope, Bytes body) {
    envelope.mutate_source_host(address.key());
    FrameWriter writer(envelope.lane(), /*link=*/true);
    writer.add(envelope, body);
    Frame frame = writer.finish();
    frame.set_link(++sent_, 0);
    link.send(frame);
  }
  void relay(wire::RelayPort what, std::uint64_t number, Bytes body) {
    wire::Envelope envelope;
    envelope.mutate_kind(wire::Kind::message);
    envelope.mutate_lane(wire::Lane::data);
    envelope.mutate_flags(kFlagRelay | kFlagNoReturn);
    envelope.mutate_port(static_cast<std::uint32_t>(what));
    envelope.mutate_sequence(number);
    send(envelope, body);
  }

  HostAddr address;
  RawPeer link;

 private:
  std::uint64_t sent_ = 0;
};

template <typename Table>
std::string encoded(const typename Table::NativeTableType& native) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, &native));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace

TEST_CASE(
    "casts: the body of a large one leaves the sender's host cast.width times, and reaches every "
    "host once") {
  Tree mesh;
  const auto before = mesh.brokers[0]->counters().originated;
  const auto inner = mesh.brokers[1]->counters().originated;
  REQUIRE(mesh.cast(*mesh.ref, large(1)).has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == kHosts && mesh.is_quiet(); }));
  // To each other host the cast without its body, three bodies and whom they are for besides, and
  // the copy for the rank here.
  CHECK(mesh.brokers[0]->counters().originated >= before + 19 + 3 + 3 + 1);
  // Host 1 has six hosts below it: three bodies, to two hosts each; that it is here, and the copy.
  CHECK(mesh.brokers[1]->counters().originated >= inner + 3 + 3 + 1 + 1);
  for (std::uint64_t rank = 0; rank < kHosts; ++rank)
    CHECK(mesh.bodies(rank) == std::vector<std::string>{large(1)});
  // Small ones, and those for no more hosts than that, go to each host from here.
  const auto small = mesh.brokers[1]->counters().originated;
  REQUIRE(mesh.cast(*mesh.ref, "small").has_value());
  REQUIRE(mesh.cast(*mesh.ref->range("host", 0, 4), large(2)).has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 2 * kHosts + 4 && mesh.is_quiet(); }));
  CHECK(mesh.brokers[1]->counters().originated < small + 2 + 3 + 3);
  // The hundredth is passed on like the first one.
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t sum = mesh.received() + kHosts;
    REQUIRE(mesh.cast(*mesh.ref, std::string(33'000, '.')).has_value());
    REQUIRE(mesh.loop.until([&] { return mesh.received() == sum; }));
  }
  CHECK(mesh.brokers[1]->counters().originated >= small + 2 + 100 * (3 + 3 + 1 + 1));
  // A call is cast likewise.
  const auto answers = mesh.call(*mesh.ref, large(3));
  CHECK(answers.at(19) == "re: " + large(3));
  CHECK(codes_of(answers) == std::set<std::string>{"answer"});
  mesh.check_all();
}

TEST_CASE("casts: large ones by the tree, small ones and direct messages keep their order") {
  Tree mesh;
  const auto all = mesh.plan(*mesh.ref);
  const auto some = mesh.plan(*mesh.ref->range("host", 1, std::nullopt, 2));
  std::vector<std::string> expected[kHosts];
  std::size_t sent = 0;
  for (std::size_t i = 0; i < 150; ++i) {
    const std::string body = i % 4 == 0 ? large(i) : std::to_string(i);
    if (i % 3 == 2) {
      const std::uint64_t rank = i % kHosts;
      REQUIRE(
          mesh.launcher->bus->send(Destination::to(*mesh.ref->proc_at(rank)), 1, body).has_value());
      expected[rank].push_back(body);
      ++sent;
    } else {
      REQUIRE(mesh.launcher->bus->cast(i % 3 == 0 ? *all : *some, 1, body).has_value());
      for (std::uint64_t rank = 0; rank < kHosts; ++rank) {
        if (i % 3 == 1 && rank % 2 == 0) continue;
        expected[rank].push_back(body);
        ++sent;
      }
    }
    mesh.loop.reactor.turn(0ms);
  }
  CHECK(mesh.loop.until([&] { return mesh.received() == sent && mesh.is_quiet(); }, 60s));
  for (std::uint64_t rank = 0; rank < kHosts; ++rank) {
    CAPTURE(rank);
    CHECK(mesh.bodies(rank) == expected[rank]);
  }
  CHECK(mesh.launcher->bus->traffic().sent.taken == sent);
  CHECK(mesh.first_return() == "");
  mesh.check_all();
}

TEST_CASE(
    "casts: a host that passes them on is killed: its own ranks lack them, and nobody else does") {
  Tree mesh(/*separate=*/1, /*delivery_limit=*/"8s");
  const auto all = mesh.plan(*mesh.ref);
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 60; ++i) {
    expected.push_back(i % 2 == 0 ? large(i) : std::to_string(i));
    REQUIRE(mesh.launcher->bus->cast(*all, 1, expected.back()).has_value());
    mesh.loop.reactor.turn(0ms);
    if (i == 30) mesh.process->send_signal(SIGKILL);
  }
  REQUIRE(mesh.loop.until([&] { return mesh.is_quiet(); }, 60s));
  for (std::uint64_t rank = 0; rank < kHosts; ++rank) {
    if (rank == 1) continue;
    CAPTURE(rank);
    CHECK(mesh.bodies(rank) == expected);
  }
  const auto sent = mesh.launcher->bus->traffic().sent;
  CHECK(sent.sent == expected.size() * kHosts);
  CHECK(sent.taken + sent.returned + sent.unknown == sent.sent);
  CHECK(sent.taken >= expected.size() * (kHosts - 1));
  CHECK(sent.returned + sent.unknown == mesh.launcher->returned.size());
  for (const auto& [envelope, error] : mesh.launcher->returned)
    CHECK(envelope.destination_proc() == mesh.ref->proc_at(1)->key());
  mesh.check_all();
}

TEST_CASE("casts: a host that is frozen delays those below it by a second, and is then left out") {
  Tree mesh(/*separate=*/1);
  mesh.process->send_signal(SIGSTOP);
  const auto count = [&] { return mesh.received() - mesh.procs[1]->received.size(); };
  for (std::size_t i = 0; i < 20; ++i) REQUIRE(mesh.cast(*mesh.ref, large(i)).has_value());
  REQUIRE(mesh.loop.until([&] { return count() == 20 * (kHosts - 1); }, 60s));
  // It, and those that it did not reach, are sent the next ones directly: nobody waits for a second
  // again, and nothing is sent twice.
  const auto relayed = mesh.brokers[0]->counters().originated;
  REQUIRE(mesh.cast(*mesh.ref, large(20)).has_value());
  REQUIRE(mesh.loop.until([&] { return count() == 21 * (kHosts - 1); }, 60s));
  CHECK(mesh.brokers[0]->counters().originated <= relayed + 19 + 3 + 3 + 1);
  mesh.process->send_signal(SIGCONT);
  REQUIRE(mesh.loop.until([&] { return mesh.is_quiet() && mesh.received() == 21 * kHosts; }, 60s));
  for (std::uint64_t rank = 0; rank < kHosts; ++rank) {
    CAPTURE(rank);
    const auto bodies = mesh.bodies(rank);
    for (std::size_t i = 0; i < 21; ++i) CHECK(bodies.at(i) == large(i));
  }
  CHECK(mesh.first_return() == "");
  mesh.check_all();
}

TEST_CASE("casts: who cannot be reached by those that pass on gets them from the sender's host") {
  Tree mesh;
  // Existing connections stay.
  std::filesystem::remove(mesh.dir / "19");
  REQUIRE(mesh.cast(*mesh.ref, large(1)).has_value());
  REQUIRE(mesh.cast(*mesh.ref, "behind it").has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 2 * kHosts && mesh.is_quiet(); }));
  for (std::uint64_t rank = 0; rank < kHosts; ++rank)
    CHECK(mesh.bodies(rank) == std::vector<std::string>{large(1), "behind it"});
  const auto before = mesh.brokers[19]->counters().received;
  REQUIRE(mesh.cast(*mesh.ref, large(2)).has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 3 * kHosts && mesh.is_quiet(); }));
  // One message, the cast itself, and what two buses say to each other.
  CHECK(mesh.brokers[19]->counters().received <= before + 3);
  CHECK(mesh.first_return() == "");
  mesh.check_all();
}

TEST_CASE(
    "casts: what is passed on is believed by its digest only, and nobody but a broker has it "
    "passed on") {
  Tree mesh({}, "30s", 2);
  Stranger stranger(mesh, 1);
  TestPeer& receiver = *mesh.procs[1];
  const std::string view =
      cast_front(mesh.ref->mesh().to_string(), {{mesh.addresses[1].key(), 1, 1, 1}},
                 *to_wire(mesh.ref->region()));
  const std::string body = view + large(1);
  const std::string digest = digest_of(body);
  wire::DetachedCastT elsewhere;
  elsewhere.number = 77;
  elsewhere.digest.assign(digest.begin(), digest.end());
  wire::Envelope cast;
  cast.mutate_source_proc(7);
  cast.mutate_kind(wire::Kind::message);
  cast.mutate_lane(wire::Lane::data);
  cast.mutate_flags(kFlagCast | kFlagDetachedCast | kFlagNoReturn);
  wire::Envelope plain = cast;
  plain.mutate_destination_proc(receiver.bus->self()->key());
  plain.mutate_flags(kFlagNoReturn);

  stranger.relay(wire::RelayPort::body, 77, view + large(2));
  stranger.send(cast, encoded<wire::DetachedCast>(elsewhere));
  stranger.send(plain, "behind it");
  plain.mutate_source_proc(8);
  stranger.send(plain, "of another sender");
  stranger.relay(wire::RelayPort::body, 77, view + large(3));
  stranger.relay(wire::RelayPort::body, 78, body);
  REQUIRE(mesh.loop.until([&] { return receiver.received.size() == 1; }));
  mesh.loop.run_for(50ms);
  CHECK(mesh.bodies(1) == std::vector<std::string>{"of another sender"});
  stranger.relay(wire::RelayPort::body, 77, body);
  REQUIRE(mesh.loop.until([&] { return receiver.received.size() == 3; }));
  CHECK(mesh.bodies(1) == std::vector<std::string>{"of another sender", large(1), "behind it"});
  // Again, and too late.
  stranger.relay(wire::RelayPort::body, 77, body);

  // What is no list, or one of too many hosts, is not followed; neither is what comes from a peer.
  const auto originated = [&] { return mesh.brokers[1]->counters().originated; };
  const auto before = originated();
  wire::PassOnT too_many;
  too_many.hosts.assign(5000, "unix:/nowhere");
  wire::PassOnT nonsense;
  nonsense.hosts = {"nonsense"};
  for (const std::string& list : {encoded<wire::PassOn>(too_many), encoded<wire::PassOn>(nonsense),
                                  std::string("no table")}) {
    stranger.relay(wire::RelayPort::pass_on, 79, list);
    stranger.relay(wire::RelayPort::body, 79, body);
  }
  stranger.send(cast, "no table either");
  RawPeer evil(mesh.loop, mesh.endpoint(1));
  CHECK(evil.greet(launcher_hello()) == "Welcome");
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  envelope.mutate_flags(kFlagRelay);
  wire::PassOnT list;
  list.hosts = {mesh.addresses[0].to_string()};
  envelope.mutate_port(static_cast<std::uint32_t>(wire::RelayPort::pass_on));
  evil.send_message(envelope, encoded<wire::PassOn>(list));
  const auto refused = evil.next_control();
  REQUIRE(refused.has_value());
  CHECK(refused->body_as<wire::Undeliverable>()->code() == wire::ErrorCode::no_such_port);
  envelope.mutate_flags(kFlagCast | kFlagDetachedCast);
  evil.send_message(envelope, encoded<wire::DetachedCast>(elsewhere));
  const auto malformed = evil.next_control();
  REQUIRE(malformed.has_value());
  CHECK(malformed->body_as<wire::Undeliverable>()->code() == wire::ErrorCode::malformed_message);
  // The Welcome, what came back to that peer, and perhaps a heartbeat, but no body.
  CHECK(originated() < before + 6);
  CHECK(receiver.received.size() == 3);
  mesh.check_all();
}
