// Where ranks are bound, on machines that tests/topologies describes. The golden maps there are the
// promise: `UPDATE_MAPS=1 meshbus_unit_tests -tc='binding maps*'` writes them anew.
#include "agent/host/lifecycle/binding_plan.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/number_list.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace meshbus::host {
namespace {

using topology::Topology;
using wire::BindMemory;
using wire::BindTo;

std::string topology_file(const std::string& name) {
  return test::source_dir() + "/tests/topologies/" + name;
}

Topology machine(const std::string& name) {
  auto topology = topology::parse_json(test::read_file(topology_file(name + ".json")));
  REQUIRE(topology.has_value());
  return *topology;
}

LocalRanks all_of(std::uint64_t ranks) {
  return {.first = 0, .count = ranks, .total = ranks};
}

/// A line for each rank, and for each note.
std::string map_of(const Result<BindingPlan>& plan) {
  if (!plan) return "  refused: " + plan.error().detail() + "\n";
  std::string text;
  for (std::size_t i = 0; i < plan->ranks.size(); ++i) {
    const auto& rank = plan->ranks[i];
    text += "  rank " + std::to_string(i) + ": CPUs " + number_list(rank.placement.cpus);
    if (rank.placement.memory != os::Placement::Memory::as_is)
      text += rank.placement.memory == os::Placement::Memory::only ? "; memory only of "
                                                                   : "; memory first of ";
    if (rank.placement.memory != os::Placement::Memory::as_is)
      text += number_list(rank.placement.memory_nodes);
    if (!rank.gpu.empty()) text += "; GPU " + rank.gpu;
    if (!rank.visible_devices.empty()) text += "; sees " + rank.visible_devices;
    text += '\n';
  }
  for (const auto& note : plan->notes) text += "  note: " + note + "\n";
  return text;
}

/// The maps of one machine, for every policy and some numbers of ranks.
std::string maps_of(const Topology& topology) {
  struct Row {
    std::string title;
    BindingRequest request;
    std::uint64_t ranks;
  };
  const std::vector<Row> rows{
      {"--bind core, 1 rank", {.to = BindTo::core}, 1},
      {"--bind core, 4 ranks", {.to = BindTo::core}, 4},
      {"--bind core, 12 ranks", {.to = BindTo::core}, 12},
      {"--bind core:2, 4 ranks", {.to = BindTo::core, .cores = 2}, 4},
      {"--bind core:3, 2 ranks", {.to = BindTo::core, .cores = 3}, 2},
      {"--bind numa, 1 rank", {.to = BindTo::numa}, 1},
      {"--bind numa, 2 ranks", {.to = BindTo::numa}, 2},
      {"--bind numa, 8 ranks", {.to = BindTo::numa}, 8},
      {"--bind numa --bind-memory only, 4 ranks",
       {.to = BindTo::numa, .memory = BindMemory::only},
       4},
      {"--bind gpu, 2 ranks", {.to = BindTo::gpu}, 2},
      {"--bind gpu --visible-devices, 8 ranks", {.to = BindTo::gpu, .is_one_gpu_visible = true}, 8},
      {"--bind gpu --bind-memory any, 10 ranks",
       {.to = BindTo::gpu, .memory = BindMemory::any},
       10}};
  std::string text;
  for (const auto& row : rows)
    text += row.title + "\n" +
            map_of(plan_binding(topology, {.request = row.request, .ranks = all_of(row.ranks)}));
  return text;
}

/// Two sockets with two NUMA nodes each, of two cores with one thread; no GPU.
Topology small_machine() {
  Topology topology{.machine_cpus = 8};
  for (std::uint32_t cpu = 0; cpu < 8; ++cpu) topology.cores.push_back({cpu / 4, {cpu}});
  for (std::uint32_t node = 0; node < 4; ++node)
    topology.nodes.push_back({node, {2 * node, 2 * node + 1}});
  return topology;
}

/// The same with a GPU beside each node.
Topology gpu_machine() {
  auto topology = small_machine();
  for (std::uint32_t node = 0; node < 4; ++node)
    topology.gpus.push_back(
        {"0000:0" + std::to_string(node) + ":00.0", "nvidia", topology.nodes[node].cpus});
  return topology;
}

std::vector<std::string> cpus_of(const Result<BindingPlan>& plan) {
  std::vector<std::string> texts;
  INFO((plan ? std::string() : plan.error().to_string()));
  REQUIRE(plan.has_value());
  for (const auto& rank : plan->ranks) texts.push_back(number_list(rank.placement.cpus));
  return texts;
}

std::vector<std::string> seen_by(const Result<BindingPlan>& plan) {
  std::vector<std::string> texts;
  INFO((plan ? std::string() : plan.error().to_string()));
  REQUIRE(plan.has_value());
  for (const auto& rank : plan->ranks) texts.push_back(rank.visible_devices);
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("binding maps: every machine of tests/topologies is bound as its golden map says") {
  for (const std::string name : {"two_sockets", "four_nodes", "eight_gpus", "virtual_machine",
                                 "two_memories", "no_memory"}) {
    CAPTURE(name);
    const auto maps = maps_of(machine(name));
    if (std::getenv("UPDATE_MAPS") != nullptr) std::ofstream(topology_file(name + ".map")) << maps;
    CHECK(maps == test::read_file(topology_file(name + ".map")));
  }
}

TEST_CASE("binding plan: hosts of one mesh on one machine bind to different cores") {
  const BindingRequest core{.to = BindTo::core};
  const auto topology = small_machine();
  const LocalRanks second{.first = 2, .count = 2, .total = 4};
  CHECK(cpus_of(plan_binding(topology, {.request = core, .ranks = second})) == Texts{"2", "3"});
}

TEST_CASE(
    "binding plan: cores that other bound ranks use are left to them while there are others") {
  const BindingRequest core{.to = BindTo::core};
  const auto topology = small_machine();
  BindingInput input{.request = core, .ranks = all_of(3), .taken = {.cpus = {0, 1, 4}}};
  auto plan = plan_binding(topology, input);
  CHECK(cpus_of(plan) == Texts{"2", "3", "5"});
  CHECK(plan->notes.empty());
  input.ranks = all_of(6);
  plan = plan_binding(topology, input);
  CHECK(cpus_of(plan) == Texts{"0", "1", "2", "3", "4", "5"});
  CHECK(plan->notes == Texts{"other bound ranks of this host are on some of these cores"});
}

TEST_CASE(
    "binding plan: a set of CPUs bounds what ranks are bound to; one without any is refused") {
  const auto topology = small_machine();
  BindingInput input{.request = {.to = BindTo::core}, .ranks = all_of(2), .cpu_set = {7, 3}};
  CHECK(cpus_of(plan_binding(topology, input)) == Texts{"3", "7"});
  input.request.to = BindTo::numa;
  CHECK(cpus_of(plan_binding(topology, input)) == Texts{"3", "7"});
  input.cpu_set = {9};
  const auto refused = plan_binding(topology, input);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail() == "it may use none of the CPUs 9");
}

TEST_CASE("binding plan: a host that may use no NUMA node binds to cores, and refuses nodes") {
  // The cpuset has the CPUs of node 1, and the memory of node 0.
  auto topology = small_machine();
  BindingInput input{.request = {.to = BindTo::numa}, .ranks = all_of(2)};
  for (const std::vector<topology::Node>& nodes :
       {std::vector<topology::Node>{}, std::vector<topology::Node>{{0, {}}}}) {
    topology.nodes = nodes;
    input.request = {.to = BindTo::numa};
    const auto refused = plan_binding(topology, input);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::refused);
    CHECK(refused.error().detail() ==
          "it may use no NUMA node beside CPUs 0-7; --bind core needs none");
    input.request.to = BindTo::core;
    CHECK(cpus_of(plan_binding(topology, input)) == Texts{"0", "1"});
    input.request.memory = BindMemory::only;
    const auto no_memory = plan_binding(topology, input);
    REQUIRE_FALSE(no_memory.has_value());
    CHECK(no_memory.error().detail() ==
          "it may use no NUMA node with memory beside CPUs 0; --bind-memory prefer or any needs "
          "none");
  }
}

TEST_CASE("binding plan: a NUMA node without memory is asked for none") {
  auto topology = small_machine();
  topology.nodes[0].has_memory = false;
  BindingInput input{.request = {.to = BindTo::numa}, .ranks = all_of(4)};
  const auto plan = plan_binding(topology, input);
  CHECK(cpus_of(plan) == Texts{"0-1", "2-3", "4-5", "6-7"});
  CHECK(plan->ranks[0].placement.memory == os::Placement::Memory::as_is);
  CHECK(plan->ranks[0].placement.memory_nodes.empty());
  CHECK(plan->ranks[1].placement.memory == os::Placement::Memory::prefer);
  CHECK(plan->ranks[1].placement.memory_nodes == std::vector<std::uint32_t>{1});
  CHECK(plan->notes.empty());
  input.request.memory = BindMemory::only;
  const auto refused = plan_binding(topology, input);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail() ==
        "it may use no NUMA node with memory beside CPUs 0-1; --bind-memory prefer or any needs "
        "none");
}

TEST_CASE("binding plan: what a host may not use is said") {
  auto topology = small_machine();
  topology.machine_cpus = 64;
  topology.quota_milli = 2500;
  topology.memory_problem = "set_mempolicy: Operation not permitted";
  BindingInput input{.request = {.to = BindTo::numa}, .ranks = all_of(1)};
  const auto plan = plan_binding(topology, input);
  REQUIRE(plan.has_value());
  CHECK(plan->ranks[0].placement.memory == os::Placement::Memory::as_is);
  CHECK(plan->notes ==
        Texts{"it may use 8 of the 64 CPUs of its machine (its cgroup, or its CPU affinity): 0-7",
              "its cgroup gives it the time of 2.5 CPUs, whatever CPUs ranks are bound to",
              "it cannot set memory policies (set_mempolicy: Operation not permitted): memory "
              "comes from the node where a rank first uses it"});
  input.request.memory = BindMemory::only;
  const auto refused = plan_binding(topology, input);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail() ==
        "it cannot keep memory on a NUMA node (set_mempolicy: Operation not permitted); "
        "--bind-memory any needs no leave for that");
}

TEST_CASE("binding plan: the GPUs that a variable leaves visible are the ones that ranks get") {
  const auto topology = gpu_machine();
  BindingInput input{.request = {.to = BindTo::gpu, .is_one_gpu_visible = true},
                     .ranks = all_of(2),
                     .visible = VisibleGpus::find({"X=1", "CUDA_VISIBLE_DEVICES=3,1"})};
  auto plan = plan_binding(topology, input);
  CHECK(seen_by(plan) == Texts{"3", "1"});
  CHECK(cpus_of(plan) == Texts{"6-7", "2-3"});
  CHECK(plan->ranks[0].gpu == "0000:03:00.0");
  // ROCm numbers what is left anew.
  input.visible = VisibleGpus::find({"ROCR_VISIBLE_DEVICES=3,1", "CUDA_VISIBLE_DEVICES=0"});
  plan = plan_binding(topology, input);
  CHECK(seen_by(plan) == Texts{"0", "1"});
  CHECK(cpus_of(plan) == Texts{"6-7", "2-3"});
  // A name says nothing about the place, so ranks can see it, and no more.
  input.visible = VisibleGpus::find({"CUDA_VISIBLE_DEVICES=GPU-1f00,GPU-2c44"});
  auto refused = plan_binding(topology, input);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail() ==
        "CUDA_VISIBLE_DEVICES names GPU 'GPU-1f00', and of the 4 GPUs here it is not known which "
        "one that is; name them by number");
  input.request.to = BindTo::none;
  plan = plan_binding(topology, input);
  CHECK(seen_by(plan) == Texts{"GPU-1f00", "GPU-2c44"});
  CHECK(cpus_of(plan) == Texts{"", ""});
  input.visible = VisibleGpus::find({"CUDA_VISIBLE_DEVICES="});
  refused = plan_binding(topology, input);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().detail() == "CUDA_VISIBLE_DEVICES is empty: no GPU is visible there");
}

TEST_CASE("binding plan: the makers of GPUs are not mixed") {
  auto topology = gpu_machine();
  topology.gpus.insert(topology.gpus.begin(), {"0000:00:02.0", "intel", {0}});
  const BindingInput input{.request = {.is_one_gpu_visible = true}, .ranks = all_of(4)};
  const auto plan = plan_binding(topology, input);
  CHECK(seen_by(plan) == Texts{"0", "1", "2", "3"});
  CHECK(plan->ranks[0].gpu == "0000:00:00.0");
  CHECK(plan->notes.empty());
}

TEST_CASE("binding plan: GPUs of other bound ranks are left to them; one without CPUs is used") {
  auto topology = gpu_machine();
  BindingInput input{.request = {.to = BindTo::gpu, .is_one_gpu_visible = true},
                     .ranks = all_of(2),
                     .taken = {.gpus = {"0000:00:00.0", "0000:01:00.0"}}};
  CHECK(seen_by(plan_binding(topology, input)) == Texts{"2", "3"});
  // The host may use CPUs 0 and 1 only.
  input.cpu_set = {0, 1};
  const auto plan = plan_binding(topology, input);
  CHECK(cpus_of(plan) == Texts{"0-1", "0-1"});
  CHECK(plan->notes ==
        Texts{"it may use no CPU beside some of these GPUs: their ranks run on any of its CPUs"});
}

TEST_CASE("binding plan: the variables of a GPU") {
  CHECK(gpu_variables({}).empty());
  RankBinding binding;
  binding.visible_devices = "3";
  CHECK(gpu_variables(binding) == Environment{"CUDA_VISIBLE_DEVICES=3", "HIP_VISIBLE_DEVICES=3",
                                              "ZE_AFFINITY_MASK=3",
                                              "CUDA_DEVICE_ORDER=PCI_BUS_ID"});
}

TEST_CASE("rank binding: consecutive ranks that are bound alike are one entry, and come back") {
  RankBinding first;
  first.placement = {.cpus = {0, 4}, .memory = os::Placement::Memory::only, .memory_nodes = {1}};
  RankBinding second;
  second.gpu = "0000:01:00.0";
  second.visible_devices = "1";
  const RankBindings bindings{{4, first}, {5, first}, {6, second}, {8, second}};
  wire::SpawnAcceptedT accepted;
  accepted.bindings = to_wire(bindings);
  REQUIRE(accepted.bindings.size() == 3);
  CHECK(accepted.bindings[0]->end == 6);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::SpawnAccepted::Pack(builder, &accepted));
  RankBindings read;
  add_bindings(flatbuffers::GetRoot<wire::SpawnAccepted>(builder.GetBufferPointer())->bindings(),
               read);
  CHECK(read == bindings);
}

TEST_CASE("topology: what is written is read; what is no topology is refused") {
  auto topology = gpu_machine();
  topology.nodes[2].has_memory = false;
  const auto read = topology::parse_json(topology::to_json(topology));
  REQUIRE(read.has_value());
  CHECK(*read == topology);
  for (const std::string text :
       {"", "[]", "{}", "{\"machine_cpus\":1}", "nonsense",
        "{\"machine_cpus\":1,\"quota_milli\":0,\"memory_problem\":\"\",\"nodes\":[],\"gpus\":[],"
        "\"cores\":[{\"package\":0,\"cpus\":\"4096\"}]}"}) {
    CAPTURE(text);
    const auto bad = topology::parse_json(text);
    REQUIRE_FALSE(bad.has_value());
    CHECK(bad.error().code() == ErrorCode::malformed_message);
  }
}

}  // namespace meshbus::host
