// Messages to every rank of a view, through real brokers (spec 7.4, 7.5).
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/bus/cast.h"
#include "common/wire/wire_region.h"
#include "tests/world/broker.h"
#include "tests/world/cast_mesh.h"
#include "tests/world/hello.h"
#include "tests/world/peer.h"
#include "tests/world/raw_peer.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

using Mesh = CastMesh;

}  // namespace

TEST_CASE(
    "casts: every rank of the view gets the message once, nobody else does, and one copy takes the "
    "way to each host") {
  Mesh mesh(3, 4);
  const auto view = *mesh.ref->range("gpu", 1, std::nullopt, 2);  // 1, 3, 5, 7, 9, 11
  REQUIRE(mesh.cast(view, "hello").has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 6; }));
  mesh.loop.run_for(50ms);
  CHECK(mesh.who_received() == std::vector<std::uint64_t>{1, 3, 5, 7, 9, 11});
  CHECK(mesh.received() == 6);
  CHECK(mesh.procs[9]->received[0].second == "hello");
  CHECK(mesh.procs[9]->received[0].first.source_proc() == mesh.launcher->bus->self()->key());
  // The others got theirs over a link: what came there was one message for two ranks, besides what
  // the launcher's bus says by itself.
  const auto before = mesh.brokers[1]->counters().received;
  REQUIRE(mesh.cast(*mesh.ref->at("host", 1), "again").has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 10; }));
  CHECK(mesh.brokers[1]->counters().received == before + 1);
  mesh.check_all();
}

TEST_CASE("casts: who gets one can tell its place in the view, wherever it is sliced") {
  Mesh mesh(2, 3);
  const auto view = *mesh.ref->at("gpu", 2);  // ranks 2 and 5
  std::map<std::uint64_t, std::string> places;
  for (const std::uint64_t rank : {2U, 5U}) {
    mesh.procs[rank].reset();
    auto options = session_options(endpoint_of(*mesh.brokers[rank / 3]),
                                   proc_hello(mesh.addresses[rank / 3], rank));
    options.hello.capabilities = kCapabilities;
    Bus::Events events;
    events.on_delivery = [&places, rank](const Bus::Delivery& delivery) {
      REQUIRE(delivery.cast != nullptr);
      const auto region = from_wire(delivery.cast->head().view());
      REQUIRE(region.has_value());
      places[rank] = std::string(delivery.body) + " at " + region->point(rank)->to_string();
    };
    Bus bus(mesh.loop.reactor, std::move(options), Dispatcher(), std::move(events));
    REQUIRE(mesh.loop.until([&] { return bus.is_up(); }));
    for (const std::string& body : {std::string("small"), std::string(100'000, 'x')}) {
      REQUIRE(mesh.cast(view, body).has_value());
      REQUIRE(mesh.loop.until([&] { return places[rank].size() > body.size(); }));
      CHECK(places[rank] == body + " at host=" + std::to_string(rank / 3) + "/2");
      places.clear();
    }
  }
}

TEST_CASE(
    "casts: a call brings an answer or an error from each rank, and who is dead takes nothing from "
    "the others") {
  Mesh mesh(2, 4);
  auto answers = mesh.call(*mesh.ref, "who");
  CHECK(codes_of(answers) == std::set<std::string>{"answer"});
  CHECK(answers.at(7) == "re: who");

  const auto peers = [&] { return std::pair(mesh.brokers[0]->peers(), mesh.brokers[1]->peers()); };
  const auto before = peers();
  mesh.procs[2].reset();
  mesh.procs[6].reset();
  // A call on its way to a proc that dies just then has no answer before its deadline.
  REQUIRE(
      mesh.loop.until([&] { return peers() == std::pair(before.first - 1, before.second - 1); }));
  answers = mesh.call(*mesh.ref, "and now");
  for (std::uint64_t rank = 0; rank < 8; ++rank) {
    CAPTURE(rank);
    CHECK(answers.at(rank).has_value() == (rank != 2 && rank != 6));
    if (!answers.at(rank)) CHECK(answers.at(rank).error().code() == ErrorCode::no_such_proc);
  }
  // Slices stay usable, and their ordinals are those of the slice.
  answers = mesh.call(*mesh.ref->range("gpu", 2, 4), "slice");
  CHECK(answers.size() == 4);
  CHECK_FALSE(answers.at(0).has_value());
  CHECK(answers.at(1) == "re: slice");
  CHECK_FALSE(answers.at(2).has_value());
  CHECK(answers.at(3) == "re: slice");
  mesh.check_all();
}

TEST_CASE("casts: the loss of a host concerns its ranks only, that of rank 0 too") {
  Mesh mesh(3, 2);
  CHECK(codes_of(mesh.call(*mesh.ref, "all")) == std::set<std::string>{"answer"});
  // The launcher is on host 0: so host 1, whose ranks are the first ones of this view, is the one
  // that goes.
  mesh.procs[2].reset();
  mesh.procs[3].reset();
  mesh.brokers[1].reset();
  const auto view = *mesh.ref->range("host", 1, 3);
  const auto answers = mesh.call(view, "after");
  CHECK_FALSE(answers.at(0).has_value());
  CHECK_FALSE(answers.at(1).has_value());
  CHECK(answers.at(2) == "re: after");
  CHECK(answers.at(3) == "re: after");
  // Messages to it come back, each with its rank.
  mesh.launcher->returned.clear();
  REQUIRE(mesh.cast(view, "lost for two").has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.launcher->returned.size() == 2; }));
  std::set<std::uint64_t> procs;
  for (const auto& [envelope, error] : mesh.launcher->returned)
    procs.insert(envelope.destination_proc());
  CHECK(procs == std::set<std::uint64_t>{mesh.ref->proc_at(2)->key(), mesh.ref->proc_at(3)->key()});
  REQUIRE(mesh.loop.until([&] { return mesh.launcher->bus->traffic().outstanding == 0; }));
  mesh.check_all();
}

TEST_CASE(
    "casts: casts and direct messages of one sender arrive in the order in which they were sent") {
  Mesh mesh(2, 3);
  const auto all = mesh.plan(*mesh.ref);
  const auto some = mesh.plan(*mesh.ref->range("gpu", 0, 3, 2));  // without ranks 1 and 4
  std::vector<std::string> expected[6];
  std::size_t sent = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    // Bodies inline and detached, in frames of their own and in common ones.
    const std::string body =
        std::to_string(i) + std::string(i % 40 == 7 ? 70000 : i % 5 * 100, '.');
    if (i % 3 == 2) {
      const std::uint64_t rank = i % 6;
      REQUIRE(
          mesh.launcher->bus->send(Destination::to(*mesh.ref->proc_at(rank)), 1, body).has_value());
      expected[rank].push_back(body);
      ++sent;
      continue;
    }
    const bool is_all = i % 3 == 0;
    REQUIRE(mesh.launcher->bus->cast(is_all ? *all : *some, 1, body).has_value());
    for (std::uint64_t rank = 0; rank < 6; ++rank) {
      if (!is_all && rank % 3 == 1) continue;
      expected[rank].push_back(body);
      ++sent;
    }
  }
  REQUIRE(mesh.loop.until([&] { return mesh.received() == sent; }));
  for (std::uint64_t rank = 0; rank < 6; ++rank) {
    CAPTURE(rank);
    std::vector<std::string> got;
    for (const auto& [envelope, body] : mesh.procs[rank]->received) got.push_back(body);
    CHECK(got == expected[rank]);
  }
  REQUIRE(mesh.loop.until([&] { return mesh.launcher->bus->traffic().outstanding == 0; }));
  CHECK(mesh.launcher->bus->traffic().sent.taken == sent);
  mesh.check_all();
}

TEST_CASE(
    "casts: one that never reads delays nobody else, and costs its sender no more than its own "
    "queue") {
  LocalBroker host;
  const auto address = host.broker->address();
  const auto ref =
      *ProcMeshRef::make(*Name::make("trainers", 7), {address}, *Extent::parse("gpu=3"));
  TestPeer good(host.loop, host.endpoint(), proc_hello(address, 0));
  TestPeer other(host.loop, host.endpoint(), proc_hello(address, 2));
  RawPeer stopped(host.loop, host.endpoint());
  auto hello = proc_hello(address, 1);
  hello.capabilities = kCapabilities;
  CHECK(stopped.greet(std::move(hello)) == "Welcome");
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  good.up();
  other.up();
  launcher.up();
  const auto plan = *CastPlan::make(ref);
  const std::string body(20'000, 'x');
  // 40 MB for each: more than any window and the queue of the one that reads nothing.
  std::size_t sent = 0;
  const auto began = std::chrono::steady_clock::now();
  while (sent < 2000) {
    if (launcher.bus->queued_bytes() < 1'000'000 && launcher.bus->cast(*plan, 1, body)) {
      ++sent;
    } else {
      host.loop.reactor.turn(1ms);
    }
    REQUIRE(std::chrono::steady_clock::now() - began < 60s);
  }
  REQUIRE(host.loop.until(
      [&] { return good.received.size() == sent && other.received.size() == sent; }));
  for (const auto& [envelope, error] : launcher.returned) {
    CHECK(envelope.destination_proc() == ref.proc_at(1)->key());
    CHECK(error.code() == ErrorCode::queue_full);
  }
  CHECK(launcher.returned.size() > 0);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("casts: no rank at all is no error, and too much is one") {
  Mesh mesh(1, 2);
  const auto none = *ProcMeshRef::make(*Name::make("trainers", 7), mesh.addresses,
                                       *Extent::parse("host=1,gpu=0"));
  CHECK(mesh.cast(none, "x").has_value());
  bool is_called = false;
  mesh.launcher->bus->cast_call(
      mesh.plan(none), 1, "x", 1s,
      [&](std::uint64_t, const Result<std::string>&) { is_called = true; });
  const auto large = mesh.cast(*mesh.ref, std::string(kBodyLimit, 'x'));
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().code() == ErrorCode::too_large);
  mesh.launcher->bus->set_body_limit(kBodyLimit);
  CHECK(codes_of(mesh.call(*mesh.ref, std::string(kBodyLimit + 1, 'x'))) ==
        std::set<std::string>{"too_large"});
  mesh.loop.run_for(20ms);
  CHECK_FALSE(is_called);
  CHECK(mesh.received() == 0);
}

TEST_CASE("casts: a view that is scattered takes several messages, and every rank gets one") {
  // One host and 2500 ranks whose order is such that no two of them make a run; only some are
  // alive.
  LocalBroker host(Setting{"delivery.starting", "0"});
  const auto address = host.broker->address();
  const auto ref = *ProcMeshRef::make(*Name::make("trainers", 7), {address}, 10'000,
                                      *Region::parse("a=2500/1,b=2/5000"));
  const auto plan = *CastPlan::make(ref);
  CHECK(plan->pieces.size() > 1);
  std::vector<std::unique_ptr<TestPeer>> procs;
  for (const std::uint64_t rank : {0U, 1234U, 2499U, 5000U, 7499U}) {
    procs.push_back(
        std::make_unique<TestPeer>(host.loop, host.endpoint(), proc_hello(address, rank)));
    procs.back()->up();
  }
  TestPeer launcher(host.loop, host.endpoint(), launcher_hello());
  launcher.up();
  std::map<std::uint64_t, bool> answers;
  launcher.bus->cast_call(plan, 1, "x", 20s,
                          [&](std::uint64_t ordinal, const Result<std::string>& answer) {
                            answers[ordinal] = answer.has_value();
                          });
  REQUIRE(host.loop.until([&] { return answers.size() == 5000; }));
  CHECK(std::count_if(answers.begin(), answers.end(), [](const auto& one) { return one.second; }) ==
        5);
  CHECK(answers.at(*ref.ordinal_of(7499)));
  for (const auto& proc : procs) CHECK(proc->received.size() == 1);
  check_conservation(host.loop, *host.broker);
}

TEST_CASE("casts: who does not answer in time, or goes meanwhile, is named by its rank") {
  Mesh mesh(1, 3);
  RawPeer silent(mesh.loop, endpoint_of(*mesh.brokers[0]));
  mesh.procs[1].reset();
  auto hello = proc_hello(mesh.addresses[0], 1);
  hello.capabilities = kCapabilities;
  CHECK(silent.greet(std::move(hello)) == "Welcome");
  const auto answers = mesh.call(*mesh.ref, "x", 300ms);
  CHECK(answers.at(0).has_value());
  REQUIRE_FALSE(answers.at(1).has_value());
  CHECK(answers.at(1).error().code() == ErrorCode::timeout);
  CHECK(answers.at(2).has_value());
}

TEST_CASE("casts: an older proc is not given what it would misread") {
  Mesh mesh(1, 2);
  RawPeer older(mesh.loop, endpoint_of(*mesh.brokers[0]));
  mesh.procs[1].reset();
  CHECK(older.greet(proc_hello(mesh.addresses[0], 1)) == "Welcome");
  const auto answers = mesh.call(*mesh.ref, "x");
  CHECK(answers.at(0).has_value());
  REQUIRE_FALSE(answers.at(1).has_value());
  CHECK(answers.at(1).error().code() == ErrorCode::version_mismatch);
}

TEST_CASE("casts: what is malformed or absurd comes back, and the broker serves on") {
  Mesh mesh(1, 2);
  RawPeer evil(mesh.loop, endpoint_of(*mesh.brokers[0]));
  CHECK(evil.greet(launcher_hello()) == "Welcome");
  const std::uint64_t host = mesh.addresses[0].key();
  const auto region = to_wire(mesh.ref->region());
  const std::string good =
      cast_front(mesh.ref->mesh().to_string(), {{host, 0, 1, 2}}, *region) + "x";
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  envelope.mutate_flags(kFlagCast);
  const auto refusal = [&](const std::string& body, wire::Kind kind = wire::Kind::message) {
    envelope.mutate_kind(kind);
    envelope.mutate_sequence(envelope.sequence() + 1);
    evil.send_message(envelope, body);
    const auto answer = evil.next_control();
    const auto* undeliverable = answer ? answer->body_as<wire::Undeliverable>() : nullptr;
    return undeliverable == nullptr ? std::string("silence")
                                    : std::string(to_string(from_wire(undeliverable->code())));
  };
  CHECK(refusal("") == "malformed_message");
  CHECK(refusal("short") == "malformed_message");
  CHECK(refusal(std::string(8, '\xff')) == "malformed_message");
  CHECK(refusal(good.substr(0, 40)) == "malformed_message");
  CHECK(refusal(good, wire::Kind::control) == "malformed_message");
  CHECK(refusal(cast_front("", {{host, 0, 1, 2}}, *region)) == "malformed_message");
  CHECK(refusal(cast_front("no name", {{host, 0, 1, 2}}, *region)) == "malformed_message");
  CHECK(refusal(cast_front(mesh.ref->mesh().to_string(), {{host, 0, 1, UINT64_MAX}}, *region)) ==
        "too_large");
  CHECK(refusal(cast_front(mesh.ref->mesh().to_string(),
                           {{host, 0, 0, 60'000}, {host, 0, 0, 60'000}}, *region)) == "too_large");
  wire::RegionT overlapping;
  overlapping.labels = {"a", "b"};
  overlapping.sizes = {2, 2};
  overlapping.strides = {1, 1};
  CHECK(refusal(cast_front(mesh.ref->mesh().to_string(), {{host, 0, 1, 2}}, overlapping)) ==
        "configuration_error");
  // A host that nobody has introduced.
  CHECK(refusal(cast_front(mesh.ref->mesh().to_string(), {{host + 1, 0, 1, 2}}, *region)) ==
        "no_such_host");
  CHECK(codes_of(mesh.call(*mesh.ref, "still there")) == std::set<std::string>{"answer"});
  mesh.check_all();
}

TEST_CASE("casts: a broker that dies with copies in it leaves no message without a fate") {
  Mesh mesh(2, 3);
  REQUIRE(mesh.cast(*mesh.ref, "first").has_value());
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 6; }));
  for (int i = 0; i < 200; ++i) REQUIRE(mesh.cast(*mesh.ref, std::to_string(i)).has_value());
  mesh.loop.reactor.turn(0ms);
  for (std::uint64_t rank = 3; rank < 6; ++rank) mesh.procs[rank].reset();
  mesh.brokers[1].reset();
  REQUIRE(mesh.loop.until([&] { return mesh.launcher->bus->traffic().outstanding == 0; }, 30s));
  const auto traffic = mesh.launcher->bus->traffic();
  CHECK(traffic.sent.sent == 201 * 6);
  CHECK(traffic.sent.taken + traffic.sent.returned + traffic.sent.unknown == 201 * 6);
  CHECK(traffic.sent.returned + traffic.sent.unknown == mesh.launcher->returned.size());
  for (std::uint64_t rank = 0; rank < 3; ++rank) CHECK(mesh.procs[rank]->received.size() == 201);
  for (const auto& [envelope, error] : mesh.launcher->returned)
    CHECK(envelope.destination_host() == mesh.addresses[1].key());
}
