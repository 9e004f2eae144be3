// The stages of a launch: `run --report`, `run --trace`, and the ranks that are named when a launch
// misses its deadline.
#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/temp_dir.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

TEST_CASE("cli: run --report and --trace tell the stages of the launch of every rank") {
  TempDir dir;
  const auto file = dir / "trace.json";
  Words words = {"run", "--hosts", "2", "-n", "6", "--report", "--trace", file};
  std::set<std::string> stages = {"spawned", "exec'd", "ready"};
  SUBCASE("plain procs") {
    words.insert(words.end(), {"--", "true"});
  }
  SUBCASE("mesh procs") {
    words.insert(words.end(), {"--mesh", "--", bin("meshbus_test_proc"), "twice"});
    stages.insert({"connected", "hello"});
  }
  const auto run = run_cli(words);
  INFO(run.err);
  CHECK(run.status == ExitStatus::exited(0));
  CHECK(run.err.find(": 6 of 6 ranks were ready\n") != std::string::npos);
  for (const auto& stage : stages)
    CHECK(run.err.find("meshbus:   " + stage + " ") != std::string::npos);
  CHECK(run.err.find("meshbus:   all ") != std::string::npos);
  CHECK(run.err.find("slowest:\nmeshbus:   rank ") != std::string::npos);
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const auto trace = parse_json(text.str());
  std::map<int, std::set<std::string>> seen;
  std::map<int, double> ends;
  std::set<int> hosts;
  for (const auto& event : trace.at("traceEvents")) {
    hosts.insert(event.at("pid").get<int>());
    if (event.at("ph") != "X") continue;
    const int rank = event.at("tid").get<int>() - 1;
    const auto name = event.at("name").get<std::string>();
    CHECK(seen[rank].insert(name).second);
    // Each stage begins where the one before it ended.
    if (ends.contains(rank)) CHECK(event.at("ts").get<double>() == doctest::Approx(ends[rank]));
    ends[rank] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  CHECK(hosts == std::set<int>{1, 2});
  REQUIRE(seen.size() == 6);
  auto all = stages;
  all.insert("run");
  for (const auto& [rank, names] : seen) CHECK(names == all);
}

TEST_CASE(
    "cli: a launch that misses its deadline names the ranks that are stuck, by host and stage") {
  const auto sleep = own_sleep();
  // Mesh procs that never say hello are stuck behind exec; the others are up.
  const auto run = run_cli({"run", "--hosts", "2", "-n", "6", "--mesh", "--set", "spawn.ready=8s",
                            "--grace", "1s", "--", "sh", "-c",
                            "case $RANK in 1|2|5) exec " + sleep + ";; esac; exec " +
                                bin("meshbus_test_proc") + " serve"});
  INFO(run.err);
  CHECK(run.status == ExitStatus::exited(125));
  CHECK(run.err.find("not ready: on unix:") != std::string::npos);
  CHECK(run.err.find(": ranks 1-2 exec'd, no hello yet; on unix:") != std::string::npos);
  CHECK(run.err.find(": rank 5 exec'd, no hello yet\n") != std::string::npos);
  CHECK(run.err.find("not ready within 8s") != std::string::npos);
  CHECK(sleepers(sleep).empty());
}
