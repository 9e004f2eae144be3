// What programs written for torchrun find, and what its command line means here.
#include <doctest/doctest.h>

#include <map>

#include "agent/host/lifecycle/free_port.h"
#include "agent/torch/own_interface.h"
#include "agent/torch/torch_variables.h"
#include "cli/run/torch_job.h"

using namespace meshbus;

namespace {

using Variables = std::map<std::string, std::string>;

Variables variables_of(const Variables& environment, const torch::TorchHost& host) {
  const auto read = [&environment](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  Variables all;
  for (const auto& [name, value] : torch::torch_variables(read, host)) all[name] = value;
  return all;
}

}  // namespace

TEST_CASE("torch_variables: what torchrun sets, from what every rank has") {
  const auto found = variables_of({{"RANK", "5"},
                                   {"NODE_RANK", "1"},
                                   {"WORLD_SIZE", "8"},
                                   {"LOCAL_WORLD_SIZE", "4"},
                                   {"MESHBUS_RESTARTS", "2"},
                                   {"MESHBUS_MESH", "train-1"},
                                   {"MASTER_PORT", "20000"},
                                   {"MESHBUS_TORCH_HOSTS", "2"},
                                   {"MESHBUS_TORCH_MAX_RESTARTS", "3"},
                                   {"MESHBUS_TORCH_GANG", "all"}},
                                  {.cpus = 10, .interface = "eth0"});
  CHECK(found == Variables{{"GROUP_RANK", "1"},
                           {"GROUP_WORLD_SIZE", "2"},
                           {"ROLE_NAME", "default"},
                           {"ROLE_RANK", "5"},
                           {"ROLE_WORLD_SIZE", "8"},
                           {"TORCHELASTIC_RUN_ID", "train-1"},
                           {"TORCHELASTIC_RESTART_COUNT", "2"},
                           {"TORCHELASTIC_MAX_RESTARTS", "3"},
                           {"MASTER_PORT", "20002"},
                           {"GLOO_SOCKET_IFNAME", "eth0"},
                           {"NCCL_SOCKET_IFNAME", "eth0"},
                           {"TP_SOCKET_IFNAME", "eth0"},
                           {"PYTHONUNBUFFERED", "1"},
                           {"OMP_NUM_THREADS", "2"}});
}

TEST_CASE(
    "torch_variables: what the user has set stays, and ranks that restart alone keep the port") {
  const auto found = variables_of({{"MASTER_PORT", "20000"},
                                   {"MESHBUS_RESTARTS", "2"},
                                   {"GLOO_SOCKET_IFNAME", "ib0"},
                                   {"OMP_NUM_THREADS", "7"}},
                                  {.cpus = 1, .interface = "eth0"});
  CHECK_FALSE(found.contains("MASTER_PORT"));
  CHECK_FALSE(found.contains("GLOO_SOCKET_IFNAME"));
  CHECK_FALSE(found.contains("OMP_NUM_THREADS"));
  CHECK(found.at("NCCL_SOCKET_IFNAME") == "eth0");
  CHECK_FALSE(found.contains("TORCHELASTIC_USE_AGENT_STORE"));
}

TEST_CASE("torch_variables: more ranks than CPUs have a thread each, and no interface is none") {
  const auto found = variables_of({{"LOCAL_WORLD_SIZE", "8"}}, {.cpus = 2, .interface = ""});
  CHECK(found.at("OMP_NUM_THREADS") == "1");
  CHECK_FALSE(found.contains("GLOO_SOCKET_IFNAME"));
}

TEST_CASE("torch_variables: a rank that is bound has as many threads as CPUs of its own") {
  const auto found = variables_of({{"LOCAL_WORLD_SIZE", "8"}, {"MESHBUS_CPUS", "6"}},
                                  {.cpus = 12, .interface = ""});
  CHECK(found.at("OMP_NUM_THREADS") == "6");
}

TEST_CASE("own_interface: the loopback interface is none") {
  CHECK(torch::find_own_interface("127.0.0.1", "127.0.0.1").empty());
  CHECK(torch::find_own_interface("", "").empty());
}

TEST_CASE("torchrun: hosts and ranks per host as its command line has them") {
  const auto nodes = cli::parse_nodes("2:4");
  REQUIRE(nodes);
  CHECK(nodes->least == 2);
  CHECK(nodes->most == 4);
  CHECK(cli::parse_nodes("3")->most == 3);
  for (const char* bad : {"", "0", "4:2", "a", "1:", "2000"}) CHECK_FALSE(cli::parse_nodes(bad));
  CHECK(*cli::parse_ranks_per_node("3", 8, 2) == 3);
  CHECK(*cli::parse_ranks_per_node("cpu", 8, 2) == 8);
  CHECK(*cli::parse_ranks_per_node("gpu", 8, 2) == 2);
  CHECK(*cli::parse_ranks_per_node("auto", 8, 2) == 2);
  CHECK(*cli::parse_ranks_per_node("auto", 8, 0) == 8);
  CHECK_FALSE(cli::parse_ranks_per_node("gpu", 8, 0));
  CHECK_FALSE(cli::parse_ranks_per_node("0", 8, 0));
}

TEST_CASE("free_port: outside of what outgoing connections take") {
  const auto below = host::ports_outside({32768, 60999});
  REQUIRE(below);
  CHECK(below->first == 10'000);
  CHECK(below->last == 32767);
  const auto above = host::ports_outside({1024, 60999});
  REQUIRE(above);
  CHECK(above->first == 61000);
  CHECK(above->last == 65535);
  CHECK_FALSE(host::ports_outside({1024, 65535}));
  CHECK_FALSE(host::ports_outside({0, 65530}));
}
