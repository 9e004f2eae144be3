// The owner's side of output: what comes twice, with gaps, or from somebody else.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "client/src/proc_mesh/mesh_monitor.h"
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

  Owner() {
    MeshMonitor::Options options;
    options.has_output = true;
    options.handlers.on_output = [this](std::uint64_t rank, Stream stream, std::string_view bytes) {
      written += std::to_string(rank) + (stream == Stream::out ? "o:" : "e:") + std::string(bytes) + "|";
    };
    monitor = std::make_shared<MeshMonitor>(
        reactor, handlers, *ProcMeshRef::make(*Name::make("m", 1), {host_a, host_b}, *Extent::make({{"host", 2}})), std::move(options));
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
    monitor->on_output(from, *message->body_as<wire::Output>(), [this](wire::OutputTakenT one) { taken.push_back(std::move(one)); });
    const int before = handled;
    handlers.post([this] { ++handled; });
    while (handled == before) std::this_thread::yield();
    reactor.turn(0ms);
  }
};

wire::OutputT chunk(std::uint64_t rank, std::uint64_t offset, const std::string& bytes, wire::Stream stream = wire::Stream::out) {
  auto one = std::make_unique<wire::OutputChunkT>();
  one->rank = rank;
  one->stream = stream;
  one->offset = offset;
  one->data.assign(bytes.begin(), bytes.end());
  wire::OutputT output;
  output.chunks.push_back(std::move(one));
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

TEST_CASE("mesh_monitor: what comes behind a gap waits for what is missing, which is asked for once") {
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
  const auto end = [] {
    wire::OutputT output;
    output.ended = {0};
    output.ends = {wire::OutputEnd(0, 4, 0)};
    return output;
  };
  owner.give(host_a, end());
  REQUIRE(owner.taken.size() == 1);
  CHECK(owner.taken[0].ended.empty());
  CHECK(owner.taken[0].resend);
  owner.give(host_a, chunk(0, 0, "one\n"));
  owner.give(host_a, end());
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
  wire::StateChangedT news;
  news.mesh = "m";
  news.host = host_a.to_string();
  news.ranks.emplace_back(0, 1, 1, 1'000'000, 0, 100, 0, wire::ProcState::ready, 0, false, wire::StopStep::none, 0);
  const auto message = ControlMessage::decode(encode_control({}, std::move(news)));
  REQUIRE(message.has_value());
  const auto* const changed = message->body_as<wire::StateChanged>();
  owner.monitor->on_update(host_a, changed->ranks(), nullptr);
  owner.give(host_a, chunk(0, 0, "one\n"));
  CHECK_FALSE(owner.monitor->should_ask_for_output());
  owner.now += 1100ms;
  CHECK(owner.monitor->should_ask_for_output());
  CHECK_FALSE(owner.monitor->should_ask_for_output());
}
