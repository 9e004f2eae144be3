// `meshbus drain` and `meshbus status`.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A run on a standing host whose ranks sleep until they are stopped.
struct DrainedMesh {
  std::string sleep = own_sleep();
  Process process;
  DrainedMesh(const std::string& host, const std::string& name, std::size_t ranks)
      : process(cli({"run", "--hosts", host, "-n", std::to_string(ranks), "--name", name, "--",
                     "sh", "-c", "exec " + sleep})) {
    wait_until([&] { return sleepers(sleep).size() == ranks || !process.is_running(); }, in_time);
    INFO(process.describe());
    REQUIRE(sleepers(sleep).size() == ranks);
  }
};

}  // namespace

TEST_CASE("cli: status shows where the ranks stand, and waits for them") {
  StandingHost host;
  DrainedMesh mesh(host.address(), "napping", 3);
  auto status = run_cli({"status", "napping", "--hosts", host.address()});
  INFO(status.out << status.err);
  CHECK(status.status == ExitStatus::exited(0));
  CHECK(status.out.find("\nnapping-") != std::string::npos);
  CHECK(status.out.ends_with("  Running  0-2\n"));
  const auto parsed =
      parse_json(run_cli({"status", "--json", "--wait", "running", "--hosts", host.address()}).out);
  REQUIRE(parsed.size() == 1);
  CHECK(parsed[0].at("region") == "host=1/3,proc=3/1");
  REQUIRE(parsed[0].at("statuses").size() == 1);
  CHECK(parsed[0].at("statuses")[0] == json({{"status", "Running"},
                                             {"reason", nullptr},
                                             {"exit_code", nullptr},
                                             {"signal", nullptr},
                                             {"restarts", 0},
                                             {"ranks", "0-2"}}));
  status = run_cli(
      {"status", "napping", "--wait", "stopped", "--timeout", "300ms", "--hosts", host.address()});
  CHECK(status.status == ExitStatus::exited(1));
  CHECK(status.err.find("3 of 3 ranks have not reached Stopped: Running=0..3") !=
        std::string::npos);
  CHECK(run_cli({"status", "nobody", "--hosts", host.address()}).status == ExitStatus::exited(1));
  CHECK(run_cli({"status", "--wait", "happy", "--hosts", host.address()}).status ==
        ExitStatus::exited(2));
  // A mesh that is not there yet is waited for.
  Process early(cli({"status", "later", "--wait", "running", "--hosts", host.address()}));
  CHECK_FALSE(wait_until([&] { return !early.is_running(); }, 500ms));
  const DrainedMesh later(host.address(), "later", 1);
  CHECK(early.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(early.out().ends_with("  Running  0\n"));
  Process waiter(cli({"status", "napping", "--wait", "stopped", "--hosts", host.address()}));
  CHECK(run_cli({"stop", "napping", "--hosts", host.address()}).status == ExitStatus::exited(0));
  CHECK(waiter.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(waiter.out().ends_with("  Stopped  0-2    stopped by SIGTERM\n"));
  CHECK(mesh.process.wait_exit(in_time) == ExitStatus::exited(143));
}

TEST_CASE(
    "cli: drain stops what is there and keeps others from starting until --resume, also when the "
    "agent was replaced") {
  StandingHost host;
  DrainedMesh mesh(host.address(), "napping", 2);
  const auto run = [&] {
    return run_cli({"run", "--hosts", host.address(), "-n", "1", "--", "true"});
  };
  auto drained =
      run_cli({"drain", "--hold", "--reason", "new kernel", "--json", "--hosts", host.address()});
  INFO(drained.out << drained.err);
  CHECK(drained.status == ExitStatus::exited(0));
  const auto parsed = parse_json(drained.out);
  REQUIRE(parsed.size() == 1);
  CHECK(parsed[0].at("attempted") == 2);
  CHECK(parsed[0].at("ok") == 2);
  CHECK(parsed[0].at("failed") == 0);
  CHECK(parsed[0].at("hold") == true);
  CHECK(parsed[0].at("mesh") == nullptr);
  CHECK(sleepers(mesh.sleep).empty());
  CHECK(mesh.process.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(mesh.process.err().find("new kernel") != std::string::npos);

  const auto is_refused = [&] {
    const auto refused = run();
    INFO(refused.err);
    CHECK(refused.status == ExitStatus::exited(125));
    CHECK(refused.err.find("is kept drained of all meshes") != std::string::npos);
    CHECK(refused.err.find("new kernel") != std::string::npos);
  };
  is_refused();
  const auto agent = host.roles().agent;
  REQUIRE(::kill(agent, SIGKILL) == 0);
  REQUIRE(wait_until(
      [&] {
        const auto now = find_roles(host.roles().warden);
        return now && now->agent != agent && now->agent != 0;
      },
      in_time));
  REQUIRE(wait_until(
      [&] { return run_cli({"ps", "--hosts", host.address()}).status == ExitStatus::exited(0); },
      in_time));
  is_refused();
  const auto shown = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
  REQUIRE(shown.at("hosts")[0].at("drains").size() == 1);
  CHECK(shown.at("hosts")[0].at("drains")[0].at("reason") == "new kernel");
  CHECK(shown.at("hosts")[0].at("drains")[0].at("hold") == true);
  CHECK(
      run_cli({"ps", "--hosts", host.address()}).out.find("drained of all meshes, asked for by ") !=
      std::string::npos);

  const auto resumed = run_cli({"drain", "--resume", "--hosts", host.address()});
  INFO(resumed.err);
  CHECK(resumed.status == ExitStatus::exited(0));
  CHECK(run().status == ExitStatus::exited(0));
  CHECK(run_cli({"drain", "--hosts", host.address()}).out ==
        "drained all meshes: 0 of 0 procs ended\n");
  CHECK(run_cli({"drain", "nobody", "--hosts", host.address()}).status == ExitStatus::exited(1));
  CHECK(run_cli({"drain", "--owner", "nobody", "--hosts", host.address()}).status ==
        ExitStatus::exited(1));
  CHECK(run_cli({"drain", "--hold", "--resume", "--hosts", host.address()}).status ==
        ExitStatus::exited(2));
}
