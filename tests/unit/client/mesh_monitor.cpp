// The owner's side of output: what comes twice, with gaps, or from somebody else.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "client/src/monitors/mesh_monitor.h"
#include "common/wire/control.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const HostAddr host_a = *HostAddr::parse("unix:/a");
const HostAddr host_b = *HostAddr::parse("unix:/b");

/// A mesh of one rank on each of two hosts, its output, and what its agents are told.
struct Owner {
  Reactor::Time now{1000s};
  Reactor reactor{[this] { return now; }};
  HandlerThread handlers;
  std::string written;
  std::vector<wire::OutputTakenT> taken;
  std::shared_ptr<MeshMonitor> monitor;
  std::atomic<int> handled = 0;
  int ends = 0;

  Owner() {
    MeshMonitor::Options options;
    options.has_output = true;
    options.handlers.on_output = [this](std::uint64_t rank, Stream stream, std::string_view bytes) {
      written +=
          std::to_string(rank) + (stream == Stream::out ? "o:" : "e:") + std::string(bytes) + "|";
    };
    options.handlers.on_failure = [](const RankReport&) {};
    options.handlers.on_end = [this](const MeshOutcome&) { ++ends; };
    monitor = std::make_shared<MeshMonitor>(
        reactor, handlers,
        *ProcMeshRef::make(*Name::make("m", 1), {host_a, host_b}, *Extent::make({{"host", 2}})),
        std::move(options));
  }
  ~Owner() {
    handlers.finish();
    reactor.turn(0ms);
  }

  /// Waits until the handlers have run and the answer was given.
  void give(const HostAddr& from, wire::OutputT output) {
    output.mesh = "m";
    const auto message = ControlMessage::decode(encode_control({}, std::move(output)));
    REQUIRE(message.has_value());
    monitor->on_output(from, *message->body_as<wire::Output>(),
                       [this](wire::OutputTakenT one) { taken.push_back(std::move(one)); });
    settle();
  }

  void tell_state(const HostAddr& from, std::uint64_t rank, wire::ProcState state,
                  wire::Cause cause = wire::Cause::none) {
    wire::StateChangedT news;
    news.mesh = "m";
    news.host = from.to_string();
    news.ranks.emplace_back(rank, 1, 1, 1'000'000, 0, 100, 0, state, 0, false, wire::StopStep::none,
                            0);
    if (cause != wire::Cause::none) {
      news.exit_reports.push_back(std::make_unique<wire::ExitReportT>());
      news.exit_reports.back()->rank = rank;
      news.exit_reports.back()->cause = cause;
    }
    const auto message = ControlMessage::decode(encode_control({}, std::move(news)));
    REQUIRE(message.has_value());
    const auto* const body = message->body_as<wire::StateChanged>();
    monitor->on_update(from, body->ranks(), body->exit_reports());
  }

  void settle() {
    reactor.turn(0ms);
    const int before = handled;
    handlers.post([this] { ++handled; });
    while (handled == before) std::this_thread::yield();
    reactor.turn(0ms);
  }
};

wire::OutputT chunk(std::uint64_t rank, std::uint64_t offset, const std::string& bytes,
                    wire::Stream stream = wire::Stream::out) {
  auto one = std::make_unique<wire::OutputChunkT>();
  one->rank = rank;
  one->stream = stream;
  one->offset = offset;
  one->data.assign(bytes.begin(), bytes.end());
  wire::OutputT output;
  output.chunks.push_back(std::move(one));
  return output;
}

wire::OutputT end_of(std::uint64_t rank, std::uint64_t out = 0) {
  wire::OutputT output;
  output.ended = {rank};
  output.ends = {wire::OutputEnd(rank, out, 0)};
  return output;
}

}  // namespace

TEST_CASE("mesh_monitor: output that comes twice is handed out once, and taken both times") {
  Owner owner;
  owner.give(host_a, chunk(0, 0, "one\n"));
  owner.give(host_a, chunk(0, 0, "one\n"));
  owner.give(host_a, chunk(0, 2, "e\ntwo\n"));
  owner.give(host_a, chunk(0, 0, "err\n", wire::Stream::err));
  CHECK(owner.written == "0o:one\n|0o:two\n|0e:err\n|");
  REQUIRE(owner.taken.size() == 4);
  CHECK(owner.taken[1].positions.at(0).offset() == 4);
  CHECK(owner.taken[1].bytes == 0);
  CHECK(owner.taken[2].positions.at(0).offset() == 8);
  CHECK_FALSE(owner.taken[2].resend);
}

TEST_CASE(
    "mesh_monitor: what comes behind a gap waits for what is missing, which is asked for once") {
  Owner owner;
  owner.give(host_a, chunk(0, 0, "one\n"));
  owner.give(host_a, chunk(0, 8, "three\n"));
  owner.give(host_a, chunk(0, 14, "four\n"));
  CHECK(owner.written == "0o:one\n|");
  REQUIRE(owner.taken.size() == 2);
  CHECK(owner.taken[1].resend);
  CHECK(owner.taken[1].positions.empty());
  owner.give(host_a, chunk(0, 4, "two\nthree\nfour\n"));
  CHECK(owner.written == "0o:one\n|0o:two\nthree\nfour\n|");
  CHECK(owner.taken.back().positions.at(0).offset() == 19);
}

TEST_CASE("mesh_monitor: the end of a rank is believed when all of it has come") {
  Owner owner;
  owner.give(host_a, end_of(0, 4));
  REQUIRE(owner.taken.size() == 1);
  CHECK(owner.taken[0].ended.empty());
  CHECK(owner.taken[0].resend);
  owner.give(host_a, chunk(0, 0, "one\n"));
  owner.give(host_a, end_of(0, 4));
  CHECK(owner.taken.back().ended == std::vector<std::uint64_t>{0});
}

TEST_CASE("mesh_monitor: output of a rank from another host than its own is nobody's") {
  Owner owner;
  owner.give(host_b, chunk(0, 0, "forged\n"));
  owner.give(host_a, chunk(7, 0, "no such rank\n"));
  owner.give(host_a, chunk(0, 0, "no such stream\n", wire::Stream::none));
  CHECK(owner.written.empty());
  CHECK(owner.taken.empty());
  owner.give(host_b, chunk(1, 0, "mine\n"));
  CHECK(owner.written == "1o:mine\n|");
}

TEST_CASE("mesh_monitor: after a silence the agents are asked again, not too often") {
  Owner owner;
  owner.now += 1100ms;
  CHECK_FALSE(owner.monitor->should_ask_for_output());  // nothing runs yet
  owner.tell_state(host_a, 0, wire::ProcState::ready);
  owner.give(host_a, chunk(0, 0, "one\n"));
  CHECK_FALSE(owner.monitor->should_ask_for_output());
  owner.now += 1100ms;
  CHECK(owner.monitor->should_ask_for_output());
  CHECK_FALSE(owner.monitor->should_ask_for_output());
}

TEST_CASE("mesh_monitor: output of ended ranks is due until it has come or their host is lost") {
  Owner owner;
  owner.monitor->arm();
  owner.tell_state(host_a, 0, wire::ProcState::stopped);
  owner.tell_state(host_b, 1, wire::ProcState::stopped);
  // The exit reports do not come: they are too late now.
  owner.now += 3s;
  owner.give(host_b, end_of(1));
  CHECK_FALSE(owner.monitor->is_output_due(host_b));
  CHECK(owner.monitor->is_output_due(host_a));
  CHECK(owner.ends == 0);
  owner.monitor->lose(host_a, "it was killed", /*is_proved=*/true);
  owner.settle();
  CHECK_FALSE(owner.monitor->is_output_due(host_a));
  CHECK(owner.ends == 1);
}

TEST_CASE("mesh_monitor: output of a host that said it is lost is waited for 1 s, not 30 s") {
  Owner owner;
  owner.monitor->arm();
  owner.give(host_b, chunk(1, 0, "mine\n"));
  owner.tell_state(host_a, 0, wire::ProcState::failed, wire::Cause::host_lost);
  bool ended_early = false;
  const auto wait = [&](Reactor::Time::duration time) {
    owner.now += time;
    owner.settle();
  };
  SUBCASE("all else has come") {
    owner.tell_state(host_b, 1, wire::ProcState::stopped, wire::Cause::exited);
    owner.give(host_b, end_of(1, 5));
    wait(900ms);
    ended_early = owner.ends != 0;
    wait(200ms);
  }
  SUBCASE("output of a living host is missing, too") {
    owner.tell_state(host_b, 1, wire::ProcState::stopped, wire::Cause::exited);
    wait(29s);
    ended_early = owner.ends != 0;
    wait(2s);
  }
  CHECK_FALSE(ended_early);
  CHECK(owner.ends == 1);
}

TEST_CASE(
    "output_receiver: an ended mesh waits 30 s for silent output, and 2 s when the launcher has "
    "moved") {
  constexpr OutputReceiver::Time kEnd{1000s};
  RankTable table(*ProcMeshRef::make(*Name::make("m", 1), {host_a}, *Extent::make({{"host", 1}})));
  table.apply(host_a,
              wire::RankState(0, 1, 1, 1'000'000, 0, 100, 0, wire::ProcState::stopped, 0, false,
                              wire::StopStep::none, 0),
              kEnd);
  OutputReceiver still(1);
  CHECK(still.give_up_at(table, kEnd) == kEnd + 30s);
  CHECK(still.give_up_at(table, kEnd + 10s) == kEnd + 30s);
  OutputReceiver moved(1);
  moved.on_moved();
  CHECK(moved.give_up_at(table, kEnd) == kEnd + 2s);
}
