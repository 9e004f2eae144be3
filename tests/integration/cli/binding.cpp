// `meshbus run --bind`: what the kernel says about ranks that are bound (spec 17.3). Other machines
// than this one come from hwloc's variables.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "tests/integration/needs.h"
#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace meshbus::test;
using nlohmann::json;

namespace {

/// What a rank prints of itself: "RANK CPUS POLICY", as the kernel has them.
constexpr const char* kSayPlace =
    "echo $RANK $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) "
    "$(head -n 1 /proc/self/numa_maps | cut -d' ' -f2)";
constexpr const char* kSayShare = "echo $RANK $MESHBUS_CPUS";

/// The machine that hosts see.
ProcessOptions machine(const std::string& synthetic) {
  return {.environment = {{"HWLOC_SYNTHETIC", synthetic}}};
}

std::string topology_file(const std::string& name) {
  return source_dir() + "/tests/topologies/" + name;
}

Finished run_bound(Words options, ProcessOptions process, const std::string& script = kSayPlace) {
  options.insert(options.begin(), {"run", "--no-prefix"});
  options.insert(options.end(), {"--", "sh", "-c", script});
  return run_cli(options, std::move(process));
}

}  // namespace

TEST_CASE("binding: --bind core gives each rank a core of its own, and memory beside it" *
          doctest::test_suite(need::two_cpus)) {
  const auto finished = run_bound({"-n", "2", "--bind", "core"}, machine("core:2 pu:1"));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) == Words{"0 0 prefer:0", "1 1 prefer:0"});
  CHECK(finished.err.empty());
}

TEST_CASE("binding: more ranks than cores share them, and the host says so" *
          doctest::test_suite(need::two_cpus)) {
  const auto finished =
      run_bound({"-n", "4", "--bind", "core", "--bind-memory", "only"}, machine("core:2 pu:1"));
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"0 0 bind:0", "1 0 bind:0", "2 1 bind:0", "3 1 bind:0"});
  CHECK(has(finished.err, "2 cores for 4 ranks: ranks next to each other share one"));
}

TEST_CASE("binding: --bind numa spreads ranks over the nodes; any leaves memory alone" *
          doctest::test_suite(need::two_cpus)) {
  const auto finished = run_bound({"-n", "2", "--bind", "numa", "--bind-memory", "any"},
                                  machine("numa:2 core:1 pu:1"));
  INFO(finished.err);
  CHECK(sorted(lines_of(finished.out)) == Words{"0 0 default", "1 1 default"});
}

TEST_CASE("binding: MESHBUS_CPUS is how many CPUs a rank has for itself" *
          doctest::test_suite(need::two_cpus)) {
  auto finished =
      run_bound({"-n", "2", "--bind", "numa"}, machine("numa:1 core:2 pu:1"), kSayShare);
  INFO(finished.err);
  CHECK(sorted(lines_of(finished.out)) == Words{"0 1", "1 1"});
  finished = run_bound({"-n", "1", "--bind", "core:2"}, machine("numa:1 core:2 pu:1"), kSayShare);
  CHECK(finished.out == "0 2\n");
  finished = run_bound({"-n", "1"}, {}, kSayShare);
  CHECK(finished.out == "0\n");
}

TEST_CASE("binding: two hosts of a run on one machine bind to different cores" *
          doctest::test_suite(need::two_cpus)) {
  const auto finished = run_bound({"--hosts", "2", "--bind", "core"}, machine("core:2 pu:1"));
  INFO(finished.err);
  CHECK(sorted(lines_of(finished.out)) == Words{"0 0 prefer:0", "1 1 prefer:0"});
}

TEST_CASE("binding: a host uses the CPUs that it has been left, and says so" *
          doctest::test_suite(need::two_cpus)) {
  Words words{"taskset", "-c", "1"};
  const auto command =
      cli({"run", "-n", "1", "--bind", "core", "--no-prefix", "--", "sh", "-c", kSayPlace});
  words.insert(words.end(), command.begin(), command.end());
  const auto narrow = run(words, in_time);
  INFO(narrow.err);
  CHECK(narrow.status == ExitStatus::exited(0));
  CHECK(narrow.out == "0 1 prefer:0\n");
  CHECK(has(narrow.err, "it may use 1 of the "));
}

TEST_CASE("binding: a preference that the kernel refuses costs no rank" *
          doctest::test_suite(need::two_cpus)) {
  const auto finished =
      run_bound({"-n", "2", "--bind", "numa"}, machine("numa:2(indexes=0,900) core:1 pu:1"));
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) == Words{"0 0 prefer:0", "1 1 default"});
}

TEST_CASE("binding: a policy that the kernel refuses is a failure that names step and nodes" *
          doctest::test_suite(need::hwloc)) {
  const auto finished = run_bound({"-n", "2", "--bind", "numa", "--bind-memory", "only"},
                                  machine("numa:2(indexes=0,900) core:1 pu:1"));
  CHECK(finished.status == ExitStatus::exited(125));
  CHECK(has(finished.err, "memory of NUMA nodes 900: Invalid argument (step: memory_policy)"));
}

TEST_CASE("binding: CPUs that are not there are a failure that names them" *
          doctest::test_suite(need::hwloc)) {
  const auto finished = run_bound({"-n", "1", "--bind", "core", "--bind-memory", "any"},
                                  machine("core:1 pu:1(indexes=1000)"));
  CHECK(has(finished.err, "CPUs 1000: Invalid argument (step: affinity)"));
}

TEST_CASE("binding: --visible-devices shows each rank its GPU, by local rank" *
          doctest::test_suite(need::hwloc)) {
  const auto finished =
      run_bound({"-n", "8", "--visible-devices", "--display-map"},
                {.environment = {{"HWLOC_XMLFILE", topology_file("eight_gpus.xml")},
                                 {"CUDA_VISIBLE_DEVICES", std::nullopt}}},
                "echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES $ZE_AFFINITY_MASK "
                "$CUDA_DEVICE_ORDER");
  INFO(finished.err);
  Words expected;
  for (const auto* rank : {"0", "1", "2", "3", "4", "5", "6", "7"})
    expected.push_back(std::string(rank) + " " + rank + " " + rank + " " + rank + " PCI_BUS_ID");
  CHECK(sorted(lines_of(finished.out)) == expected);
  CHECK(has(finished.err, "0000:07:00.0 (sees 0)"));
  CHECK(has(finished.err, "0000:bd:00.0 (sees 7)"));
}

TEST_CASE("binding: --bind gpu takes the GPUs that are visible already; --json has the map" *
          doctest::test_suite(need::two_cpus)) {
  const TempDir dir;
  const auto finished =
      run_bound({"-n", "2", "--bind", "gpu", "--visible-devices", "--json", dir / "report"},
                {.environment = {{"HWLOC_XMLFILE", topology_file("eight_gpus.xml")},
                                 {"CUDA_VISIBLE_DEVICES", "3,2"}}},
                "echo $RANK $CUDA_VISIBLE_DEVICES");
  INFO(finished.err);
  CHECK(sorted(lines_of(finished.out)) == Words{"0 3", "1 2"});
  const auto binding = parse_json(read_file(dir / "report")).at("binding");
  REQUIRE(binding.at("ranks").size() == 2);
  const auto& first = binding.at("ranks").at(0);
  CHECK(first.at("rank") == 0);
  CHECK(first.at("point") == "host=0,proc=0");
  CHECK(first.at("cpus") == "0-3,16-19");
  CHECK(first.at("memory_nodes") == "0");
  CHECK(first.at("memory") == "prefer");
  CHECK(first.at("gpu") == "0000:4e:00.0");
  CHECK(first.at("visible_devices") == "3");
  CHECK(binding.at("notes").empty());
}

TEST_CASE("binding: what cannot be bound is refused with a sentence, and nothing runs" *
          doctest::test_suite(need::hwloc)) {
  auto finished = run_bound({"-n", "2", "--bind", "gpu"}, machine("core:2 pu:1"));
  CHECK(finished.status == ExitStatus::exited(125));
  CHECK(finished.out.empty());
  CHECK(has(finished.err, "cannot bind ranks: it has no GPU that is known"));
  finished = run_bound({"-n", "1", "--bind", "core:3"}, machine("core:2 pu:1"));
  CHECK(has(finished.err, "it may use 2 cores, and 3 are wanted for each rank"));
  finished = run_bound({"-n", "2", "--mesh", "--procs-per-process", "2", "--bind", "core"}, {});
  CHECK(finished.status == ExitStatus::exited(2));
  CHECK(has(finished.err, "ranks that share a process cannot be bound one by one"));
}

TEST_CASE("binding: without --bind the map says any, and hosts need no hwloc") {
  const auto finished = run_bound({"-n", "1", "--display-map"}, {}, "exit 0");
  CHECK(finished.status == ExitStatus::exited(0));
  const auto lines = lines_of(finished.err);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("meshbus: RANK  HOST"));
  CHECK(has(lines[1], "host=0,proc=0  any   any     -"));
}

TEST_CASE("binding: cores of another mesh on the host are left alone; a restart keeps its own" *
          doctest::test_suite(need::two_cpus)) {
  StandingHost host({}, machine("core:2 pu:1"));
  const auto sleep = own_sleep();
  Process first(cli({"run", "--hosts", host.address(), "-n", "1", "--bind", "core", "--no-prefix",
                     "--restart", "on-failure:2", "--restart-delay", "10ms", "--", "sh", "-c",
                     std::string(kSayPlace) + "; exec " + sleep}));
  first.wait_for_output("0 0 prefer:0", in_time);
  const auto second = run_cli({"run", "--hosts", host.address(), "-n", "1", "--bind", "core",
                               "--no-prefix", "--", "sh", "-c", kSayPlace});
  INFO(second.err);
  CHECK(second.out == "0 1 prefer:0\n");
  // Also when another agent answers: it reads how the rank is bound from the ledger.
  const auto agent = host.roles().agent;
  REQUIRE(::kill(agent, SIGKILL) == 0);
  const auto is_replaced = [&] {
    const auto now = find_roles(host.process().pid());
    return now && now->agent != agent;
  };
  CHECK(time_until(is_replaced, in_time).has_value());
  const auto ranks = sleepers(sleep);
  REQUIRE(ranks.size() == 1);
  REQUIRE(::kill(ranks[0].pid, SIGKILL) == 0);
  first.wait_for_output("0 0 prefer:0\n0 0 prefer:0\n", in_time);
  first.send_signal(SIGTERM);
  first.wait_exit(in_time);
}

TEST_CASE("topology: meshbus-topology says of recorded machines what is committed" *
          doctest::test_suite(need::hwloc)) {
  const auto program = std::filesystem::path(bin("meshbus")).parent_path() / "meshbus-topology";
  for (const std::string name : {"two_sockets", "four_nodes", "eight_gpus", "virtual_machine",
                                 "two_memories", "no_memory"}) {
    CAPTURE(name);
    const auto finished = run({program, "--xml", topology_file(name + ".xml")}, in_time);
    INFO(finished.err);
    CHECK(finished.out == read_file(topology_file(name + ".json")));
  }
}
