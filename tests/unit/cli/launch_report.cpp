#include "cli/run/launch_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <map>

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

const std::chrono::system_clock::time_point kStart{std::chrono::seconds(1'700'000'000)};

/// 100 ranks on two hosts. Rank r of the first 98: spawned r, exec'd 1, connected 2, hello 3, ready 4 ms after the stage before. Rank 98
/// never connected, rank 99 was never spawned.
MeshOutcome outcome(const ProcMeshRef& mesh) {
  MeshOutcome outcome;
  for (std::uint64_t number = 0; number < 100; ++number) {
    RankReport rank;
    rank.rank = number;
    rank.host_index = *mesh.host_index_of(number);
    rank.host = mesh.hosts()[rank.host_index];
    rank.point = "x=" + std::to_string(number) + "/100";
    rank.state = ProcState::stopped;
    rank.launch.asked = kStart;
    if (number < 99) {
      rank.pid = 1000;
      rank.launch.spawned = kStart + std::chrono::milliseconds(number);
      rank.launch.exec = *rank.launch.spawned + 1ms;
    }
    if (number < 98) {
      rank.launch.connected = *rank.launch.exec + 2ms;
      rank.launch.hello = *rank.launch.connected + 3ms;
      rank.launch.ready = *rank.launch.hello + 4ms;
      rank.ended = *rank.launch.ready + 5ms;
    } else {
      rank.state = ProcState::failed;
      rank.code = ErrorCode::timeout;
    }
    outcome.ranks.push_back(rank);
  }
  return outcome;
}

ProcMeshRef mesh() {
  return *ProcMeshRef::make(*Name::parse("trainers-13Se1Maqzryj"), {*HostAddr::parse("tcp:h1:1"), *HostAddr::parse("tcp:h2:1")},
                            *Extent::parse("x=100"));
}

TEST_CASE("launch_report: percentiles by stage, the slowest ranks, and who was never ready") {
  const auto text = launch_report(mesh(), outcome(mesh()));
  INFO(text);
  CHECK(text.find("98 of 100 ranks were ready\n") != std::string::npos);
  CHECK(text.find("  spawned         99      49.00      98.00      98.00\n") != std::string::npos);
  CHECK(text.find("  exec'd          99       1.00       1.00       1.00\n") != std::string::npos);
  CHECK(text.find("  connected       98       2.00       2.00       2.00\n") != std::string::npos);
  CHECK(text.find("  hello           98       3.00       3.00       3.00\n") != std::string::npos);
  CHECK(text.find("  ready           98       4.00       4.00       4.00\n") != std::string::npos);
  CHECK(text.find("  all             98      58.00     107.00     107.00\n") != std::string::npos);
  CHECK(
      text.find("slowest:\nmeshbus:   rank 97 on tcp:h2:1, 107.00 ms: spawned 97.00, exec'd 1.00, connected 2.00, hello 3.00, ready 4.00\n"
                "meshbus:   rank 96 ") != std::string::npos);
  CHECK(text.find("never ready: on tcp:h2:1: rank 99 not spawned yet; rank 98 exec'd, no hello yet\n") != std::string::npos);
}

TEST_CASE("launch_report: nobody was heard of, and clocks that go back") {
  MeshOutcome none;
  none.ranks.resize(2);
  none.ranks[1].rank = 1;
  CHECK(launch_report(mesh(), none).find("0 of 2 ranks were ready\n") != std::string::npos);
  CHECK(launch_report(mesh(), {}).find("0 of 0 ranks were ready\n") != std::string::npos);
  CHECK(json::parse(launch_trace(mesh(), none)).at("traceEvents").size() == 3);
  none.ranks[0].launch.asked = kStart;
  none.ranks[0].launch.spawned = kStart - 5ms;
  none.ranks[0].launch.exec = kStart + 1ms;
  none.ranks[0].launch.ready = kStart;
  CHECK(launch_report(mesh(), none).find("rank 0 on local:0, 1.00 ms: spawned 0.00, exec'd 1.00, ready 0.00") != std::string::npos);
}

TEST_CASE("launch_report: the trace is what Chrome and Perfetto read: hosts are processes, ranks threads, stages slices") {
  const auto trace = json::parse(launch_trace(mesh(), outcome(mesh())));
  std::map<std::string, int> slices;
  std::map<int, std::string> hosts;
  std::map<int, std::string> threads;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      const auto name = event.at("args").at("name").get<std::string>();
      if (event.at("name") == "process_name") hosts[event.at("pid").get<int>()] = name;
      if (event.at("name") == "thread_name") threads[event.at("tid").get<int>()] = name;
      continue;
    }
    REQUIRE(event.at("ph") == "X");
    ++slices[event.at("name").get<std::string>()];
    CHECK(event.at("ts").get<double>() >= 0);
    CHECK(event.at("dur").get<double>() >= 0);
    CHECK(event.at("pid") == (event.at("tid").get<int>() <= 50 ? 1 : 2));
    if (event.at("tid") == 8 && event.at("name") == "hello") {
      CHECK(event.at("ts").get<double>() == doctest::Approx(10'000));
      CHECK(event.at("dur").get<double>() == doctest::Approx(3'000));
    }
  }
  CHECK(hosts == std::map<int, std::string>{{1, "host 0: tcp:h1:1"}, {2, "host 1: tcp:h2:1"}});
  CHECK(threads.size() == 100);
  CHECK(threads[8] == "rank 7 x=7/100");
  CHECK(slices ==
        std::map<std::string, int>{{"spawned", 99}, {"exec'd", 99}, {"connected", 98}, {"hello", 98}, {"ready", 98}, {"run", 98}});
}

}  // namespace
}  // namespace meshbus::cli
