// Host processes and the procs on them, from a launcher that is this test program.
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE("client: spec 6.2: plain procs on two host processes run, and every end is known") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  REQUIRE(hosts.hosts().size() == 2);
  for (const auto& host : must(hosts.states())) {
    INFO(host.problem);
    CHECK(host.code == ErrorCode::none);
    CHECK(host.live == 0);
    CHECK_FALSE(host.containment.empty());
  }
  Heard heard;
  auto spec = shell(
      "echo $RANK of $WORLD_SIZE on node $NODE_RANK at $MESHBUS_RANK_GPU; echo to stderr >&2");
  spec.output = OutputMode::stream;
  auto mesh = must(hosts.spawn("hello", extent("gpu=2"), spec, heard.handlers()));
  CHECK(mesh.size() == 4);
  CHECK(mesh.ref().mesh().base() == "hello");
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.is_ended());
  CHECK(outcome.exit_code() == 0);
  REQUIRE(outcome.ranks.size() == 4);
  for (const auto& rank : outcome.ranks) {
    INFO(rank.describe());
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.exit_code == 0);
    CHECK(rank.pid > 0);
    CHECK(rank.host_index == rank.rank / 2);
    CHECK(rank.started.has_value());
    CHECK(rank.ended.has_value());
    CHECK(rank.stderr_tail == "to stderr\n");
    CHECK(heard.output(rank.rank) == std::to_string(rank.rank) + " of 4 on node " +
                                         std::to_string(rank.rank / 2) + " at " +
                                         std::to_string(rank.rank % 2) + "\n");
    CHECK(heard.output(rank.rank, Stream::err) == "to stderr\n");
  }
  CHECK(heard.ends() == 1);
  CHECK(heard.failures().empty());
  // After the end everything still answers.
  for (const auto& rank : must(mesh.status())) CHECK(rank.state == ProcState::stopped);
  CHECK(must(mesh.stop()).is_ended());
  const auto summary = must(hosts.shutdown(in_time));
  CHECK(summary.hosts == 2);
  CHECK(summary.failed == 0);
  CHECK(must(hosts.shutdown(in_time)).hosts == 2);
}

TEST_CASE(
    "client: spec 6.2: a command that cannot be executed is an error of the spawn that names file, "
    "rank and host") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto mesh = hosts.spawn("broken", extent("gpu=2"), {.command = {"/no/such/file"}});
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().code() == ErrorCode::proc_creation_error);
  CHECK(mesh.error().detail().find("/no/such/file") != std::string::npos);
  CHECK(mesh.error().detail().find("rank 0 (host=0,gpu=0 on " + hosts.hosts()[0].to_string() +
                                   ")") != std::string::npos);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 6.2: when a rank ends before all are ready, the ones that did start are "
    "stopped") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  const auto sleep = own_sleep();
  // Mesh procs that never say that they are ready; one ends instead.
  auto spec = shell("if [ $RANK = 2 ]; then echo dying words >&2; exit 7; fi; exec " + sleep);
  spec.kind = ProcKind::mesh;
  spec.grace = 1s;
  const auto mesh = hosts.spawn("half", extent("gpu=2"), spec);
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().code() == ErrorCode::proc_creation_error);
  CHECK(mesh.error().detail().find("rank 2 (host=1,gpu=0 on ") != std::string::npos);
  CHECK(mesh.error().detail().find("exit 7") != std::string::npos);
  CHECK(mesh.error().detail().find("dying words") != std::string::npos);
  CHECK(processes_with(sleep).empty());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 6.2: ranks that are never ready are named with the stage in which they are "
    "stuck") {
  auto context = must(Context::create(quick({{"spawn.idle", "1s"}, {"spawn.ready", "1s"}})));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto sleep = own_sleep();
  auto spec = shell("exec " + sleep);
  spec.kind = ProcKind::mesh;
  SUBCASE("by the idle limit of the launcher") {
    spec.ready_limit = 0ms;
    const auto mesh = hosts.spawn("stuck", extent("gpu=1"), spec);
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().code() == ErrorCode::proc_spawn_error);
    CHECK(mesh.error().detail().find("rank 0 (host=0,gpu=0 on ") != std::string::npos);
    CHECK(mesh.error().detail().find("running") != std::string::npos);
  }
  SUBCASE("by the ready limit of the rank") {
    spec.ready_limit = 300ms;
    const auto mesh = hosts.spawn("stuck", extent("gpu=1"), spec);
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().code() == ErrorCode::proc_spawn_error);
  }
  CHECK(processes_with(sleep).empty());
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: what cannot work is refused before anything starts") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  CHECK(hosts.spawn("m", extent("host=2"), shell("true")).error().code() ==
        ErrorCode::configuration_error);
  CHECK(hosts.spawn("m", extent("gpu=1"), {}).error().code() == ErrorCode::configuration_error);
  CHECK(hosts.spawn("9 lives", extent("gpu=1"), shell("true")).error().code() ==
        ErrorCode::parse_error);
  CHECK(hosts.spawn("m", extent("gpu=1"), {.command = {"true"}, .environment = {{"A=B", "c"}}})
            .error()
            .code() == ErrorCode::configuration_error);
  CHECK(must(hosts.meshes()).meshes.empty());
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: ranks in all are spread in blocks, with one axis when they do not divide") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  const auto uneven = must(hosts.spawn_n("five", 5, shell("true")));
  CHECK(uneven.ref().region().extent().to_argument() == "proc=5");
  CHECK(must(uneven.ref().block_of(0)) == RankBlock{0, 3});
  const auto even = must(hosts.spawn_n("six", 6, shell("true")));
  CHECK(even.ref().region().extent().to_argument() == "host=2,proc=3");
  // More hosts than ranks: the second one has none, and is not asked to start any.
  auto single = must(hosts.spawn_n("one", 1, shell("exit 0")));
  CHECK(must(single.wait(in_time)).ranks.size() == 1);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: procs follow the launcher's environment and folder, and what the spec says wins") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  // Set after the host has started: its own environment does not have it.
  ::setenv("LAUNCHER_SAYS", "hello", 1);
  ::setenv("RANK", "17", 1);
  Heard heard;
  auto spec = shell("echo $LAUNCHER_SAYS $RANK $MINE; pwd");
  spec.environment = {{"MINE", "over"}};
  spec.output = OutputMode::stream;
  auto mesh = must(hosts.spawn("env", extent("gpu=1"), spec, heard.handlers()));
  must(mesh.wait(in_time));
  CHECK(heard.output(0) == "hello 0 over\n" + std::filesystem::current_path().string() + "\n");
  ::unsetenv("RANK");

  Heard clean;
  spec.clean_environment = true;
  spec.directory = "/";
  auto other = must(hosts.spawn("clean", extent("gpu=1"), spec, clean.handlers()));
  must(other.wait(in_time));
  CHECK(clean.output(0) == "0 over\n/\n");
  ::unsetenv("LAUNCHER_SAYS");
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: every byte of output comes, in order, and before the end") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  std::vector<std::string> written(4);
  std::size_t at_end = 0;
  Handlers handlers;
  handlers.on_failure = [](const RankReport&) {};
  handlers.on_output = [&](std::uint64_t rank, Stream, std::string_view bytes) {
    written[rank].append(bytes);
  };
  handlers.on_end = [&](const MeshOutcome&) {
    for (const auto& text : written) at_end += text.size();
  };
  const auto spec = shell("seq $RANK 4 600000; printf 'no newline'");
  auto mesh = must(hosts.spawn("loud", extent("gpu=2"), spec, handlers));
  must(mesh.wait(in_time));
  std::size_t total = 0;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    std::string expected;
    for (std::uint64_t i = rank; i <= 600000; i += 4) expected += std::to_string(i) + "\n";
    CHECK((written[rank] == expected + "no newline"));
    total += written[rank].size();
  }
  CHECK(at_end == total);
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: stdin goes to the ranks that were given one, and its end too") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto spec = shell("cat");
  spec.output = OutputMode::stream;
  spec.input_ranks = {{1, 2}};
  auto mesh = must(hosts.spawn("cat", extent("gpu=2"), spec, heard.handlers()));
  CHECK(mesh.write_input(1, "first\n").has_value());
  CHECK(mesh.write_input(1, "second\n").has_value());
  CHECK(mesh.write_input(1, std::string(600 * 1024, 'x')).error().code() == ErrorCode::too_large);
  CHECK(mesh.write_input(9, "x").error().code() == ErrorCode::out_of_range);
  CHECK(mesh.close_input(1).has_value());
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 0);
  CHECK(heard.output(1) == "first\nsecond\n");
  CHECK(heard.output(0).empty());
  CHECK(mesh.write_input(1, "late", 10s).error().code() == ErrorCode::not_exist);
  must(hosts.shutdown(in_time));
}
