// Readers of the logs of procs, and an owner whose broker dies.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tests/integration/agent/harness.h"

#include "wire/bus_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

/// A reader of logs that keeps what it gets.
class TestReader {
 public:
  TestReader(AgentHarness& harness, const std::string& name)
      : harness_(harness), launcher_(harness.make_launcher(name)) {
    launcher_->on_log = [this](const Request& request, const wire::Log& log) {
      on_log(request, log);
    };
  }
  struct Stream {
    std::string bytes;
    std::uint64_t begin = UINT64_MAX, next = 0, missed = 0;
    bool ended = false;
  };

  wire::StreamLogsT request(const std::string& mesh) {
    wire::StreamLogsT request;
    request.mesh = mesh;
    request.subscriber = launcher_->id().to_string();
    request.stream = 7;
    request.tail = 100;
    request.follow = true;
    return request;
  }
  Result<wire::LogStartedT> start(wire::StreamLogsT request) {
    expected_ = 1;
    auto started = harness_.ask<wire::LogStarted>(*launcher_, std::move(request));
    return started;
  }
  Stream& stream(std::uint64_t rank, wire::Stream stream = wire::Stream::out) {
    return streams[{rank, stream}];
  }
  void take(const std::string& mesh, std::uint64_t sequence) {
    wire::LogTakenT taken;
    taken.mesh = mesh;
    taken.stream = 7;
    taken.sequence = sequence;
    launcher_->bus().tell(Destination::to_agent(harness_.host()), taken);
  }
  /// As a client does (client/src/monitors/log_feed.cpp): a message may be lost with a broker, and
  /// a reader that was silent for long is forgotten.
  void ask_when_silent(const std::string& mesh) {
    const auto now = std::chrono::steady_clock::now();
    if (done || now - heard_ < 1s) return;
    heard_ = now;
    wire::LogTakenT taken;
    taken.mesh = mesh;
    taken.stream = 7;
    taken.sequence = expected_ - 1;
    taken.resend = true;
    const auto answer = harness_.ask<wire::Ack>(*launcher_, taken);
    if (answer || answer.error().code() != ErrorCode::not_exist) return;
    auto again = request(mesh);
    for (const auto& [at, stream] : streams)
      again.from.emplace_back(at.first, stream.next, at.second);
    CHECK(start(std::move(again)).has_value());
  }
  Bus& bus() { return launcher_->bus(); }
  TestLauncher& launcher() { return *launcher_; }

  std::map<std::pair<std::uint64_t, wire::Stream>, Stream> streams;
  bool takes = true;
  bool done = false;
  std::uint64_t bytes = 0, last = 0;

 private:
  void on_log(const Request&, const wire::Log& log) {
    heard_ = std::chrono::steady_clock::now();
    if (log.sequence() != expected_ && (log.sequence() != log.since() || log.since() < expected_))
      return;
    expected_ = log.sequence() + 1;
    last = log.sequence();
    if (log.chunks() != nullptr) {
      for (const auto* chunk : *log.chunks()) {
        Stream& at = streams[{chunk->rank(), chunk->stream()}];
        if (at.begin == UINT64_MAX) at.begin = at.next = chunk->offset();
        std::string data(chunk->data()->begin(), chunk->data()->end());
        auto offset = chunk->offset();
        if (offset < at.next) {
          const auto known = std::min<std::uint64_t>(at.next - offset, data.size());
          data.erase(0, known);
          offset += known;
        }
        if (data.empty()) continue;
        at.missed += offset - at.next;
        at.bytes += data;
        at.next = offset + data.size();
        bytes += data.size();
      }
    }
    if (log.ends() != nullptr) {
      for (const auto* end : *log.ends()) {
        Stream& at = streams[{end->rank(), end->stream()}];
        if (at.begin == UINT64_MAX) at.begin = at.next = end->offset();
        at.missed += end->offset() - at.next;
        at.next = end->offset();
        at.ended = true;
      }
    }
    done = done || log.done();
    if (takes) take(log.mesh()->str(), log.sequence());
  }

  AgentHarness& harness_;
  std::unique_ptr<TestLauncher> launcher_;
  std::uint64_t expected_ = 1;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

std::string numbers(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::string touch_and_wait(const TempDir& dir) {
  return "until [ -e " + (dir / "go") + " ]; do sleep 0.02; done; ";
}

TEST_CASE("agent logs: the tail of each stream first, then what is written, then the end") {
  AgentHarness harness;
  const auto mesh = harness.run_shell(
      "seq 0 249; echo err >&2; " + touch_and_wait(harness.dir()) + "printf 'live\\0\\377'; exit 1",
      2);
  TestReader reader(harness, "client");
  harness.wait("the tail to be there", [&] {
    TestReader look(harness, "client");
    auto request = look.request(mesh);
    request.follow = false;
    REQUIRE(look.start(request).has_value());
    harness.wait("the end of a look", [&] { return look.done; });
    return look.stream(0).next > 800 && look.stream(1).next > 800 &&
           look.stream(0, wire::Stream::err).next == 4;
  });
  auto request = reader.request(mesh);
  request.tail = 10;
  const auto started = reader.start(request);
  REQUIRE(started.has_value());
  REQUIRE(started->ranks.size() == 1);
  CHECK(started->ranks[0].begin() == 0);
  CHECK(started->ranks[0].end() == 2);
  harness.wait("the tail", [&] {
    return reader.stream(0).bytes == numbers(240, 250) &&
           reader.stream(1).bytes == numbers(240, 250);
  });
  CHECK(reader.stream(1).begin == numbers(0, 240).size());
  CHECK(reader.stream(0, wire::Stream::err).bytes == "err\n");
  CHECK_FALSE(reader.done);
  harness.dir().write("go", "");
  harness.wait("the end", [&] { return reader.done; });
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    CHECK(reader.stream(rank).bytes == numbers(240, 250) + std::string("live\0\xff", 6));
    CHECK(reader.stream(rank).missed == 0);
    CHECK(reader.stream(rank).ended);
  }
  harness.wait_ended(mesh, 2);
  // Ended, and still there.
  TestReader late(harness, "client");
  auto last = late.request(mesh);
  last.tail = 2;
  last.ranks = {{1, 2}};
  last.streams = 1;
  REQUIRE(late.start(last).has_value());
  harness.wait("the end of an ended mesh", [&] { return late.done; });
  CHECK(late.streams.size() == 1);
  CHECK(late.stream(1).bytes == "249\n" + std::string("live\0\xff", 6));
}

TEST_CASE(
    "agent logs: a mesh whose ranks live on without output ends for its readers with its last "
    "rank") {
  AgentHarness harness;
  const auto mesh = harness.run_shell(
      "echo hello; exec >&- 2>&-; " + touch_and_wait(harness.dir()) + "exit 0", 2);
  TestReader reader(harness, "client");
  REQUIRE(reader.start(reader.request(mesh)).has_value());
  harness.wait("all output", [&] {
    return reader.stream(0).ended && reader.stream(0, wire::Stream::err).ended &&
           reader.stream(1).ended && reader.stream(1, wire::Stream::err).ended;
  });
  // The answer comes behind all that this reader has taken: nothing is under way when the ranks
  // end.
  REQUIRE(harness.ask<wire::MeshState>(reader.launcher(), get_state(mesh)).has_value());
  CHECK_FALSE(reader.done);
  harness.dir().write("go", "");
  harness.wait("the end", [&] { return reader.done; });
  CHECK(reader.stream(0).bytes == "hello\n");
  CHECK(reader.stream(1).bytes == "hello\n");
  harness.wait_ended(mesh, 2);
}

TEST_CASE(
    "agent logs: a reader that takes nothing holds up nobody, and learns how much it missed") {
  AgentHarness harness;
  TestReader stuck(harness, "client"), good(harness, "client");
  stuck.takes = false;
  constexpr std::uint64_t flood = 20'000'000;
  auto spawn = harness.shell("head -c " + std::to_string(flood) + " /dev/zero; echo end");
  spawn.output = wire::OutputMode::stream;
  const auto mesh = harness.spawn(std::move(spawn));
  REQUIRE(stuck.start(stuck.request(mesh)).has_value());
  REQUIRE(good.start(good.request(mesh)).has_value());
  harness.wait("the owner to get all", [&] { return harness.rank(mesh).output_ended; });
  CHECK(harness.rank(mesh).out.size() == flood + 4);
  harness.wait("the good one to get the end", [&] { return good.done; });
  CHECK(good.stream(0).begin + good.stream(0).bytes.size() + good.stream(0).missed == flood + 4);
  CHECK(good.stream(0).bytes.ends_with("end\n"));
  // It got its window and no more.
  CHECK(stuck.bytes <= 256 * 1024);
  CHECK(stuck.bytes >= 128 * 1024);
  CHECK_FALSE(stuck.done);
  stuck.takes = true;
  stuck.take(mesh, stuck.last);
  harness.wait("the stuck one to get the end", [&] { return stuck.done; });
  CHECK(stuck.stream(0).bytes.ends_with("end\n"));
  CHECK(stuck.stream(0).missed > flood / 2);
  CHECK(stuck.stream(0).begin + stuck.stream(0).bytes.size() + stuck.stream(0).missed == flood + 4);
}

TEST_CASE(
    "agent logs: with files nothing is missed, however late or slow a reader is, and rotation "
    "keeps what it may") {
  const TempDir logs;
  AgentHarness harness(
      {.settings = {
           {"logs.directory", logs / "kept"}, {"logs.size", "64KiB"}, {"logs.files", "200"}}});
  const std::string script =
      "awk 'BEGIN { for (i = 0; i < 300000; ++i) print i }'; printf unfinished; printf 'e\\0' >&2";
  const auto mesh = harness.run_shell(script, 2);
  TestReader slow(harness, "client");
  slow.takes = false;
  auto request = slow.request(mesh);
  request.tail = UINT64_MAX;
  REQUIRE(slow.start(request).has_value());
  harness.wait_ended(mesh, 2);
  slow.takes = true;
  slow.take(mesh, slow.last);
  harness.wait("all", [&] { return slow.done; });
  const std::string expected = numbers(0, 300000) + "unfinished";
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    CHECK((slow.stream(rank).bytes == expected));
    CHECK(slow.stream(rank).missed == 0);
    CHECK(slow.stream(rank, wire::Stream::err).bytes == std::string("e\0", 2));
    // The files themselves.
    const std::filesystem::path current =
        logs / ("kept/" + mesh + "/" + std::to_string(rank) + ".out");
    std::map<std::string, std::string> aside;
    for (const auto& entry : std::filesystem::directory_iterator(current.parent_path())) {
      if (entry.path().string().starts_with(current.string() + "."))
        aside[entry.path()] = read_file(entry.path());
    }
    std::string joined;
    for (const auto& [path, bytes] : aside) joined += bytes;
    CHECK(aside.size() > 20);
    CHECK((joined + read_file(current) == expected));
  }
  TestReader from(harness, "client");
  auto at = from.request(mesh);
  at.follow = false;
  at.from = {wire::StreamPosition(1, 1000, wire::Stream::out)};
  at.ranks = {{1, 2}};
  at.streams = 1;
  REQUIRE(from.start(at).has_value());
  harness.wait("what comes after an offset", [&] { return from.done; });
  CHECK(from.stream(1).begin == 1000);
  CHECK((from.stream(1).bytes == expected.substr(1000)));
}

TEST_CASE(
    "agent logs: a directory for files that cannot be made is an error before anything starts") {
  AgentHarness harness({.settings = {{"logs.directory", "/proc/nowhere"}}});
  auto request = harness.shell("true");
  const auto refused = harness.ask<wire::SpawnAccepted>(std::move(request));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::configuration_error);
  CHECK(refused.error().detail().find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("agent logs: what does not fit is refused in words") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300");
  TestReader reader(harness, "client");
  auto no_mesh = reader.request("nothing-13Se1Maqzryj");
  CHECK(reader.start(no_mesh).error().code() == ErrorCode::not_exist);
  auto no_rank = reader.request(mesh);
  no_rank.ranks = {{0, 2}};
  CHECK(reader.start(no_rank).error().code() == ErrorCode::not_exist);
  CHECK(reader.start(no_rank).error().detail().find("rank 1") != std::string::npos);
  auto somebody = reader.request(mesh);
  somebody.subscriber = harness.launcher->id().to_string();
  CHECK(reader.start(somebody).error().code() == ErrorCode::identity_mismatch);
  auto nonsense = reader.request(mesh);
  nonsense.subscriber = "?";
  CHECK(reader.start(nonsense).error().code() != ErrorCode::none);
  wire::LogTakenT taken;
  taken.mesh = mesh;
  taken.stream = 7;
  CHECK(harness.ask<wire::Ack>(reader.launcher(), taken).error().code() == ErrorCode::not_exist);
  wire::StopLogsT stop;
  stop.mesh = mesh;
  CHECK(harness.ask<wire::Ack>(reader.launcher(), stop).has_value());
  REQUIRE(reader.start(reader.request(mesh)).has_value());
  taken.sequence = 1'000'000'000;
  CHECK(harness.ask<wire::Ack>(reader.launcher(), taken).has_value());
  stop.stream = 7;
  CHECK(harness.ask<wire::Ack>(reader.launcher(), stop).has_value());
  CHECK(harness.ask<wire::Ack>(reader.launcher(), taken).error().code() == ErrorCode::not_exist);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh);
}

TEST_CASE("agent logs: a reader whose broker was away gets everything once it is back") {
  AgentHarness harness;
  TestReader reader(harness, "client");
  const auto mesh = harness.run_shell("for i in $(seq 0 99); do echo $i; sleep 0.01; done");
  REQUIRE(reader.start(reader.request(mesh)).has_value());
  harness.wait("some", [&] { return reader.stream(0).bytes.size() > 20; });
  harness.stop_broker();
  harness.run_for(200ms);
  const int ups = harness.ups;
  harness.start_broker();
  harness.wait("the agent to be back", [&] { return harness.ups > ups && reader.bus().is_up(); });
  harness.wait("the end", [&] {
    reader.ask_when_silent(mesh);
    return reader.done;
  });
  CHECK(reader.stream(0).bytes == numbers(0, 100));
  CHECK(reader.stream(0).missed == 0);
}

TEST_CASE(
    "agent: the owner gets every byte though the broker dies with output in it, again and again") {
  AgentHarness harness;
  auto request = harness.shell("awk 'BEGIN { for (i = 0; i < 400000; ++i) print i }'", 3);
  request.output = wire::OutputMode::stream;
  const auto mesh = harness.spawn(std::move(request));
  for (int round = 1; round <= 5; ++round) {
    harness.wait("output", [&] {
      return harness.rank(mesh).out.size() > static_cast<std::size_t>(round) * 200'000;
    });
    harness.stop_broker();
    const int ups = harness.ups;
    harness.run_for(20ms);
    harness.start_broker();
    harness.wait("both to be back",
                 [&] { return harness.ups > ups && harness.launcher->bus().is_up(); });
  }
  harness.wait("the end of the output", [&] {
    const auto& known = harness.launcher->mesh(mesh);
    return known.size() == 3 && std::all_of(known.begin(), known.end(), [](const auto& entry) {
             return entry.second.output_ended;
           });
  });
  const std::string expected = numbers(0, 400000);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) CHECK((rank.out == expected));
  harness.wait_ended(mesh, 3);
  CHECK(harness.launcher->problems.empty());
}

}  // namespace
}  // namespace meshbus::test
