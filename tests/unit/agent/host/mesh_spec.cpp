#include "agent/host/model/mesh_spec.h"

#include <doctest/doctest.h>

#include <functional>

#include "agent/host/lifecycle/bootstrap_writer.h"
#include "agent/host/model/environment.h"
#include "common/wire/frame.h"
#include "tests/unit/agent/host/fixture.h"
#include "wire/bootstrap_generated.h"
#include "wire/lifecycle_generated.h"

#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>

namespace meshbus::host {
namespace {

using test::good_request;
using test::key_value;
using test::parse;

TEST_CASE("mesh_spec: a good request") {
  auto request = good_request();
  request.kind = wire::ProcKind::mesh;
  request.output = wire::OutputMode::stream;
  request.input_ranks = {wire::RankInterval(0, 1), wire::RankInterval(5, 6)};
  const auto spec = parse(request);
  REQUIRE(spec.has_value());
  CHECK(spec->mesh.to_string() == test::mesh_name);
  CHECK(spec->region.to_string() == "host=2/3,\"gpu/n\"=3/1");
  CHECK(spec->hosts.size() == 2);
  CHECK(spec->block == RankBlock{3, 6});
  CHECK(spec->create_ranks == std::vector<RankBlock>{{3, 6}});
  CHECK(spec->command.arguments == std::vector<std::string>{"echo", "hi"});
  CHECK(spec->lease == std::chrono::seconds(60));
  CHECK(spec->ready_limit == std::chrono::seconds(30));
  CHECK(spec->grace == std::chrono::seconds(10));
  CHECK(contains(spec->input_ranks, 5));
  CHECK_FALSE(contains(spec->input_ranks, 4));
  CHECK(contains(spec->input_ranks, 0));
  CHECK_FALSE(contains(spec->input_ranks, 1));
}

TEST_CASE("mesh_spec: no arguments means the program alone; no ranks are fine") {
  auto request = good_request();
  request.command->arguments.clear();
  request.create_ranks.clear();
  const auto spec = parse(request);
  REQUIRE(spec.has_value());
  CHECK(spec->command.arguments == std::vector<std::string>{"/bin/echo"});
}

TEST_CASE("mesh_spec: whatever is wrong is refused, naming the field") {
  struct Row {
    std::string field;
    ErrorCode code;
    std::function<void(wire::SpawnProcsT&)> spoil;
  };
  using Spawn = wire::SpawnProcsT;
  const std::string nul("a\0b", 3);
  const auto settings = [](Spawn& s) -> wire::ProcSettingsT& {
    s.command->settings = std::make_unique<wire::ProcSettingsT>();
    return *s.command->settings;
  };
  const std::vector<Row> rows{
      {"SpawnProcs.mesh", ErrorCode::parse_error, [](Spawn& s) { s.mesh = "9!"; }},
      {"SpawnProcs.mesh", ErrorCode::parse_error, [](Spawn& s) { s.mesh = ""; }},
      {"SpawnProcs.region", ErrorCode::configuration_error,
       [](Spawn& s) { s.region->sizes.pop_back(); }},
      {"SpawnProcs.region", ErrorCode::configuration_error,
       [](Spawn& s) { s.region->labels[1] = "host"; }},
      {"SpawnProcs.region", ErrorCode::configuration_error,
       [](Spawn& s) { s.region->strides = {1, 2}; }},
      {"SpawnProcs.region", ErrorCode::configuration_error, [](Spawn& s) { s.region->offset = 1; }},
      {"SpawnProcs.region", ErrorCode::configuration_error,
       [](Spawn& s) { s.region->sizes = {1ULL << 40, 1ULL << 40}; }},
      {"SpawnProcs.hosts[0]", ErrorCode::parse_error, [](Spawn& s) { s.hosts[0] = "h1:7420"; }},
      {"SpawnProcs.host_index", ErrorCode::out_of_range, [](Spawn& s) { s.host_index = 2; }},
      {"SpawnProcs.host_index", ErrorCode::out_of_range, [](Spawn& s) { s.hosts.clear(); }},
      {"SpawnProcs.hosts[0]", ErrorCode::identity_mismatch, [](Spawn& s) { s.host_index = 0; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(3, 7)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(2, 4)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(4, 4)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(5, 3)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(4, 6), wire::RankInterval(3, 4)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(3, 5), wire::RankInterval(4, 6)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.create_ranks = {wire::RankInterval(0, UINT64_MAX)}; }},
      {"SpawnProcs.create_ranks", ErrorCode::too_large,
       [](Spawn& s) {
         s.region->sizes = {2, 1ULL << 40};
         s.region->strides = {1ULL << 40, 1};
         s.create_ranks = {wire::RankInterval(1ULL << 40, 1ULL << 41)};
       }},
      {"SpawnProcs.input_ranks", ErrorCode::out_of_range,
       [](Spawn& s) { s.input_ranks = {wire::RankInterval(6, 7)}; }},
      {"SpawnProcs.kind", ErrorCode::configuration_error,
       [](Spawn& s) { s.kind = static_cast<wire::ProcKind>(9); }},
      {"SpawnProcs.output", ErrorCode::configuration_error,
       [](Spawn& s) { s.output = static_cast<wire::OutputMode>(9); }},
      {"SpawnProcs.command.program", ErrorCode::configuration_error,
       [](Spawn& s) { s.command->program.clear(); }},
      {"SpawnProcs.command.program", ErrorCode::configuration_error,
       [&](Spawn& s) { s.command->program = nul; }},
      {"SpawnProcs.command.arguments", ErrorCode::configuration_error,
       [&](Spawn& s) { s.command->arguments[1] = nul; }},
      {"SpawnProcs.command.directory", ErrorCode::configuration_error,
       [&](Spawn& s) { s.command->directory = nul; }},
      {"SpawnProcs.command.environment", ErrorCode::configuration_error,
       [](Spawn& s) { s.command->environment.push_back(key_value("", "x")); }},
      {"SpawnProcs.command.environment", ErrorCode::configuration_error,
       [](Spawn& s) { s.command->environment.push_back(key_value("A=B", "x")); }},
      {"SpawnProcs.command.environment", ErrorCode::configuration_error,
       [&](Spawn& s) { s.command->environment.push_back(key_value("A", nul)); }},
      {"SpawnProcs.command.settings.memory_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).memory_limit = 0; }},
      {"SpawnProcs.command.settings.memory_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).memory_limit = 4096; }},
      {"SpawnProcs.command.settings.memory_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).memory_limit = UINT64_MAX; }},
      {"SpawnProcs.command.settings.pids_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).pids_limit = 0; }},
      {"SpawnProcs.command.settings.pids_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).pids_limit = UINT64_MAX; }},
      {"SpawnProcs.command.settings.cpu_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).cpu_limit = 9; }},
      {"SpawnProcs.command.settings.cpu_limit", ErrorCode::configuration_error,
       [&](Spawn& s) { settings(s).cpu_limit = UINT32_MAX; }},
      {"SpawnProcs.command.is_template", ErrorCode::configuration_error,
       [](Spawn& s) {
         s.command->is_template = true;
         s.kind = wire::ProcKind::mesh;
         s.procs_per_process = 2;
       }},
      {"SpawnProcs.config", ErrorCode::configuration_error,
       [&](Spawn& s) { s.config.push_back(key_value("A", nul)); }},
      {"SpawnProcs.owner", ErrorCode::parse_error, [](Spawn& s) { s.owner = ""; }},
      {"SpawnProcs.owner", ErrorCode::parse_error, [](Spawn& s) { s.owner = "unix:/run/m/a"; }},
      {"SpawnProcs.master_address", ErrorCode::configuration_error,
       [&](Spawn& s) { s.master_address = nul; }},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto request = good_request();
    rows[i].spoil(request);
    const auto spec = parse(request);
    INFO("row ", i, ": ", rows[i].field);
    REQUIRE_FALSE(spec.has_value());
    INFO(spec.error().to_string());
    CHECK(spec.error().code() == rows[i].code);
    CHECK(spec.error().detail().starts_with(rows[i].field));
  }
}

TEST_CASE("mesh_spec: what makes two requests for one mesh different") {
  const auto base = *parse(good_request());
  const auto difference = [&](const std::function<void(wire::SpawnProcsT&)>& change) {
    auto request = good_request();
    change(request);
    const auto other = parse(request);
    REQUIRE(other.has_value());
    return std::string(find_difference(base, *other).value_or("nothing"));
  };
  CHECK(difference([](auto&) {}) == "nothing");
  CHECK(difference([](auto& s) { s.create_ranks = {wire::RankInterval(4, 5)}; }) == "nothing");
  CHECK(difference([](auto& s) { s.lease_ms = 1; }) == "nothing");
  CHECK(difference([](auto& s) { s.command->arguments[1] = "ho"; }) == "command");
  CHECK(difference([](auto& s) { s.command->environment.push_back(key_value("A", "B")); }) ==
        "command");
  CHECK(difference([](auto& s) { s.command->is_template = true; }) == "command");
  CHECK(difference([](auto& s) { s.kind = wire::ProcKind::mesh; }) == "kind");
  CHECK(difference([](auto& s) { s.owner = "unix:/run/m/a,client-13Se1Maqzryk"; }) == "owner");
  CHECK(difference([](auto& s) { s.region->labels[0] = "node"; }) == "region");
  CHECK(difference([](auto& s) { s.hosts[0] = "unix:/run/m/c"; }) == "hosts");
  CHECK(difference([](auto& s) { s.grace_ms = 1; }) == "grace_ms");
  CHECK(difference([](auto& s) { s.ready_limit_ms = 1; }) == "ready_limit_ms");
  CHECK(difference([](auto& s) { s.output = wire::OutputMode::stream; }) == "output");
  CHECK(difference([](auto& s) { s.master_port = 1; }) == "master_port");
  CHECK(difference([](auto& s) { s.config.push_back(key_value("lease", "1s")); }) == "config");
}

std::string joined(const Environment& environment) {
  std::string text;
  for (const auto& entry : environment) text += entry + "\n";
  return text;
}

TEST_CASE("environment: what every proc is told (spec 4.5)") {
  auto request = good_request();
  request.master_address = "10.0.0.1";
  request.master_port = 29500;
  const auto spec = *parse(request);
  CHECK(joined(shared_environment(spec, {})) ==
        "LOCAL_WORLD_SIZE=3\nMASTER_ADDR=10.0.0.1\nMASTER_PORT=29500\nMESHBUS_MESH=trainers-"
        "13Se1Maqzryj\nMESHBUS_SIZE_GPU_N=3\n"
        "MESHBUS_SIZE_HOST=2\nNODE_RANK=1\nWORLD_SIZE=6\n");
  CHECK(joined(rank_environment(spec, 4)) ==
        "RANK=4\nLOCAL_RANK=1\nMESHBUS_RANK_HOST=1\nMESHBUS_RANK_GPU_N=1\nMESHBUS_RESTARTS="
        "0\nMESHBUS_ADDR=unix:/run/m/"
        "b,trainers_4-13Se1Maqzryj\n");
}

TEST_CASE(
    "environment: the command's own wins over the inherited; what is somebody else's identity "
    "comes from neither") {
  auto request = good_request();
  const auto add = [&](const char* key, const char* value) {
    request.command->environment.push_back(key_value(key, value));
  };
  add("A", "command");
  add("E", "");
  add("E", "last=wins");
  add("RANK", "99");
  add("MESHBUS_BOOTSTRAP", "3:4:5");
  add("MESHBUS_RANK_OUTER", "1");
  add("MESHBUS_LOG_LEVEL", "debug");
  const Environment inherited{"A=inherited",           "B=inherited",   "MESHBUS_BOOTSTRAP=9:9:9",
                              "MESHBUS_SIZE_OUTER=2",  "WORLD_SIZE=77", "MESHBUS_HEARTBEAT=1s",
                              "no equals sign at all", "=C:=x",         "LOCAL_RANK=5"};
  const std::string fixed =
      "LOCAL_WORLD_SIZE=3\nMESHBUS_LOG_LEVEL=debug\nMESHBUS_MESH=trainers-13Se1Maqzryj\nMESHBUS_"
      "SIZE_GPU_N=3\nMESHBUS_SIZE_HOST=2\nNODE_"
      "RANK=1\nWORLD_SIZE=6\n";
  SUBCASE("inherited") {
    const std::string text = joined(shared_environment(*parse(request), inherited));
    CHECK(text ==
          "A=command\nB=inherited\nE=last=wins\nLOCAL_WORLD_SIZE=3\nMESHBUS_HEARTBEAT=1s\nMESHBUS_"
          "LOG_LEVEL=debug\nMESHBUS_MESH=trainers-"
          "13Se1Maqzryj\n"
          "MESHBUS_SIZE_GPU_N=3\nMESHBUS_SIZE_HOST=2\nNODE_RANK=1\nWORLD_SIZE=6\n");
  }
  SUBCASE("clean") {
    request.command->clean_environment = true;
    CHECK(joined(shared_environment(*parse(request), inherited)) ==
          "A=command\nE=last=wins\n" + fixed);
  }
}

TEST_CASE("environment: labels become variables") {
  CHECK(variable_of_label("gpu") == "GPU");
  CHECK(variable_of_label("dim/0") == "DIM_0");
  CHECK(variable_of_label("Größe") == "GR____E");
  CHECK(variable_of_label("a_B9") == "A_B9");
}

TEST_CASE("bootstrap_writer: what a mesh proc finds, sealed") {
  const TokenMaker tokens(std::string(TokenMaker::kSecretSize, 's'));
  auto request = good_request();
  request.config.push_back(key_value("heartbeat", "2s"));
  request.config.push_back(key_value("session.away", "nonsense"));
  const auto spec = *parse(request);
  const BootstrapWriter writer(tokens, "ipc:///run/m/b", Config());
  auto fd = writer.write(spec, {{4, 1234}});
  REQUIRE(fd.has_value());
  CHECK(fcntl(fd->get(), F_GET_SEALS) ==
        (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL));
  std::vector<std::uint8_t> bytes(65536);
  const auto size = ::read(fd->get(), bytes.data(), bytes.size());
  REQUIRE(size > 0);
  bytes.resize(static_cast<std::size_t>(size));
  CHECK(bytes == writer.encode(spec, {{4, 1234}}));
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  REQUIRE(verifier.VerifyBuffer<wire::Bootstrap>(nullptr));
  wire::BootstrapT bootstrap;
  flatbuffers::GetRoot<wire::Bootstrap>(bytes.data())->UnPackTo(&bootstrap);
  const std::string id = "unix:/run/m/b,trainers_4-13Se1Maqzryj";
  REQUIRE(bootstrap.procs.size() == 1);
  CHECK(bootstrap.procs[0]->proc == id);
  CHECK(bootstrap.procs[0]->incarnation == 1234);
  CHECK(tokens.verify(id, 1234, bootstrap.procs[0]->token));
  CHECK(bootstrap.broker == "ipc:///run/m/b");
  CHECK(bootstrap.host == "unix:/run/m/b");
  CHECK(bootstrap.mesh == test::mesh_name);
  CHECK(bootstrap.region->sizes == std::vector<std::uint64_t>{2, 3});
  CHECK(bootstrap.hosts.size() == 2);
  CHECK(bootstrap.rank == 4);
  CHECK(bootstrap.config.size() == 2);
  CHECK(bootstrap.heartbeat_ms == 2000);  // this host has only the default: the launcher's counts
  CHECK(bootstrap.away_ms == 10'000);
}

}  // namespace
}  // namespace meshbus::host
