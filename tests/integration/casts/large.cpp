// Casts of large bodies (spec 9.2): ranks of the sender's host map its memory, others get chunks.
#include "common/bus/arrival.h"
#include "tests/world/cast_mesh.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr std::size_t kSize = 3 * 1024 * 1024 + 5;

void set_limits(CastMesh& mesh) {
  for (auto& proc : mesh.procs) proc->bus->set_body_limit(2 * kSize);
  mesh.launcher->bus->set_body_limit(2 * kSize);
}

std::vector<std::uint64_t> mapped(const CastMesh& mesh) {
  std::vector<std::uint64_t> counts;
  for (const auto& proc : mesh.procs)
    counts.push_back(proc == nullptr ? 0 : proc->bus->intake().mapped());
  return counts;
}

}  // namespace

TEST_CASE("large casts: one memory for all ranks of the host, chunks for the others") {
  CastMesh mesh(2, 3);
  set_limits(mesh);
  const std::string text(kSize, 'b');
  Arrival arrival;
  mesh.launcher->bus->cast_large(mesh.plan(*mesh.ref), 1, SharedBody::copy(text), arrival);
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 6; }));
  CHECK(arrival.wait(kSize, 0ms).has_value());
  for (const auto& proc : mesh.procs) CHECK((proc->received[0].second == text));
  CHECK(mapped(mesh) == std::vector<std::uint64_t>{1, 1, 1, 0, 0, 0});
  CHECK(mesh.launcher->bus->large_under_way() == 0);
  // Only one host, and only the other.
  for (const std::uint64_t host : {std::uint64_t{0}, std::uint64_t{1}}) {
    Arrival one;
    const auto view = mesh.ref->at("host", host).value();
    mesh.launcher->bus->cast_large(mesh.plan(view), 1, SharedBody::copy(text), one);
    REQUIRE(mesh.loop.until([&] { return mesh.received() == 9 + 3 * host; }));
    CHECK(one.wait(kSize, 0ms).has_value());
  }
  CHECK(mapped(mesh) == std::vector<std::uint64_t>{2, 2, 2, 0, 0, 0});
  mesh.check_all();
}

TEST_CASE("large casts: what fits into a message beside its ranks goes in one, and no byte more") {
  CastMesh mesh(2, 3);
  set_limits(mesh);
  const auto limit = mesh.plan(*mesh.ref)->body_limit;
  CHECK(limit > kBodyLimit - 1024);
  for (const std::size_t size : {limit, limit + 1}) {
    CAPTURE(size);
    const std::string text(size, 'b');
    const auto answers = mesh.call(*mesh.ref, text);
    REQUIRE(answers.size() == 6);
    for (const auto& [rank, answer] : answers) CHECK((answer.value() == "re: " + text));
    const std::uint64_t times = size == limit ? 0 : 1;
    CHECK(mapped(mesh) == std::vector<std::uint64_t>{times, times, times, 0, 0, 0});
  }
  mesh.check_all();
}

TEST_CASE("large casts: each rank answers, and one that is gone does not hold up the others") {
  CastMesh mesh(2, 3);
  set_limits(mesh);
  mesh.procs[1].reset();
  mesh.procs[5].reset();
  const std::string text(kSize, 'b');
  const auto answers = mesh.call(*mesh.ref, text);
  REQUIRE(answers.size() == 6);
  for (std::uint64_t rank = 0; rank < 6; ++rank) {
    CAPTURE(rank);
    if (rank == 1 || rank == 5) {
      CHECK(answers.at(rank).error().code() == ErrorCode::no_such_proc);
    } else {
      CHECK((answers.at(rank).value() == "re: " + text));
    }
  }
  CHECK(mapped(mesh) == std::vector<std::uint64_t>{1, 0, 1, 0, 0, 0});
  CHECK(mesh.launcher->bus->intake().mapped() == 2);
  mesh.check_all();
}

TEST_CASE("large casts: a body passes each link once, whatever the number of ranks") {
  constexpr std::size_t kHosts = 17;
  constexpr std::uint64_t kBytes = 4 * 1024 * 1024;
  CastMesh mesh(kHosts, 2);
  for (auto& proc : mesh.procs) proc->bus->set_body_limit(kBytes);
  mesh.launcher->bus->set_body_limit(kBytes);
  CHECK(codes_of(mesh.call(*mesh.ref, "hello")) == std::set<std::string>{"answer"});
  for (auto& proc : mesh.procs) proc->received.clear();
  std::vector<std::uint64_t> before;
  for (const auto& broker : mesh.brokers) before.push_back(broker->counters().received_bytes);
  Arrival arrival;
  mesh.launcher->bus->cast_large(mesh.plan(*mesh.ref), 1,
                                 SharedBody::copy(std::string(kBytes, 'b')), arrival);
  REQUIRE(mesh.loop.until([&] { return mesh.received() == 2 * kHosts; }));
  CHECK(arrival.wait(kBytes, 0ms).has_value());
  // What a host receives of the body is what its links carry of it: one copy.
  for (std::size_t host = 1; host < kHosts; ++host) {
    CAPTURE(host);
    const auto bytes = mesh.brokers[host]->counters().received_bytes - before[host];
    CHECK(bytes >= kBytes);
    CHECK(bytes < kBytes + kBytes / 20);
  }
  // The sender's own broker gets it once for all of them, and the answers; its rank maps it.
  const auto own = mesh.brokers[0]->counters().received_bytes - before[0];
  CHECK(own >= kBytes);
  CHECK(own < kBytes + kBytes / 10);
  CHECK(mapped(mesh)[0] + mapped(mesh)[1] == 2);
}

TEST_CASE("large casts: who leaves the bus before all ranks have the body is not told success") {
  CastMesh mesh(2, 1);
  set_limits(mesh);
  auto& bus = *mesh.launcher->bus;
  Arrival arrival;
  bus.cast_large(mesh.plan(*mesh.ref), 1, SharedBody::copy(std::string(kSize, 'b')), arrival);
  // The rank of our host has it, the other one gets it in pieces.
  REQUIRE(bus.large_under_way() == 2);
  REQUIRE(mesh.loop.until([&] { return bus.large_under_way() == 1; }));
  bus.close("the test is over");
  const auto sent = arrival.wait(kSize, 0ms);
  REQUIRE_FALSE(sent.has_value());
  CHECK(sent.error().code() == ErrorCode::fate_unknown);
  CHECK(mesh.received() == 0);
}
