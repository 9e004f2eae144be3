// New lives of ranks, as a launcher sees them (spec 8.9).
#include <csignal>
#include <fstream>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

RestartPolicy quickly(RestartPolicy::On on, Gang gang = Gang::one) {
  return {.on = on, .budget = 3, .gang = gang, .delay = 50ms, .max_delay = 100ms};
}

/// What Heard hears, and restarts.
struct Restarts {
  Handlers handlers() {
    auto all = heard.handlers();
    all.on_restart = [this](const RestartReport& restart) {
      const std::lock_guard lock(mutex);
      told.push_back(restart);
    };
    return all;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return told.size();
  }

  Heard heard;
  std::mutex mutex;
  std::vector<RestartReport> told;
};

}  // namespace

TEST_CASE(
    "client: spec 8.9: a mesh proc that dies is there again under its address, with another "
    "incarnation") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Restarts restarts;
  auto mesh = must(hosts.spawn("ranks", extent("gpu=2"),
                               {.kind = ProcKind::mesh,
                                .command = {bin("meshbus_test_proc"), "serve"},
                                .restart = quickly(RestartPolicy::On::failure)},
                               restarts.handlers()));
  const auto before = mesh.known().ranks[2];
  const auto proc = must(mesh.proc(2));
  CHECK(must(proc.call(context, 1, "first life", in_time)) == "first life");
  // Port 5 ends the proc with exit 41.
  CHECK_FALSE(proc.call(context, 5, "", in_time).has_value());
  REQUIRE(wait_until(
      [&] {
        return mesh.known().ranks[2].restarts == 1 &&
               mesh.known().ranks[2].state == ProcState::ready;
      },
      in_time));
  const auto after = mesh.known().ranks[2];
  CHECK(after.incarnation != before.incarnation);
  CHECK(after.pid != before.pid);
  CHECK(after.generation > before.generation);
  CHECK(must(proc.call(context, 1, "second life", in_time)) == "second life");
  const auto answers = must(context.call(mesh.ref(), 1, "all", in_time));
  REQUIRE(answers.size() == 4);
  for (const auto& answer : answers) CHECK(must(answer) == "all");
  REQUIRE(restarts.count() == 1);
  CHECK(restarts.told[0].cause.rank == 2);
  CHECK(restarts.told[0].cause.exit_code == 41);
  CHECK(restarts.told[0].ranks == RankSet{{2, 3}});
  CHECK(restarts.told[0].restart == 1);
  CHECK(restarts.heard.failures().empty());
  must(mesh.stop());
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 0);
  REQUIRE(outcome.former_lives.size() == 1);
  CHECK(outcome.former_lives[0].exit_code == 41);
  CHECK(outcome.former_lives[0].incarnation == before.incarnation);
  CHECK(restarts.heard.ends() == 1);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 8.9: wait() goes on through all lives, and a failure is told once, when it is "
    "for good") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Restarts restarts;
  auto spec = shell("echo $MESHBUS_RESTARTS; exit 7");
  spec.output = OutputMode::stream;
  spec.restart = quickly(RestartPolicy::On::failure);
  spec.wait_ready = false;
  auto mesh = must(hosts.spawn("failing", extent("gpu=1"), spec, restarts.handlers()));
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 7);
  CHECK(outcome.ranks[0].restarts == 3);
  CHECK(outcome.former_lives.size() == 3);
  CHECK(restarts.heard.output(0) == "0\n1\n2\n3\n");
  REQUIRE(restarts.heard.failures().size() == 1);
  CHECK(restarts.heard.failures()[0].restarts == 3);
  CHECK_FALSE(restarts.heard.failures()[0].is_restarting);
  CHECK(restarts.count() == 3);
  CHECK(restarts.heard.ends() == 1);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 8.9: a stop between two lives is the end, and the failure that waited is told") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Restarts restarts;
  auto spec = shell("exit 7");
  spec.restart = quickly(RestartPolicy::On::failure);
  spec.restart.delay = spec.restart.max_delay = 1h;
  spec.wait_ready = false;
  auto mesh = must(hosts.spawn("failing", extent("gpu=1"), spec, restarts.handlers()));
  REQUIRE(wait_until([&] { return restarts.count() == 1; }, in_time));
  CHECK(mesh.known().ranks[0].is_restarting);
  CHECK_FALSE(mesh.known().first_failure.has_value());
  must(mesh.stop());
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 7);
  CHECK(outcome.ranks[0].restarts == 0);
  CHECK(restarts.heard.failures().size() == 1);
  CHECK(restarts.heard.ends() == 1);
  must(hosts.shutdown(in_time));
}

TEST_CASE("client: spec 8.9: ranks on a host that is lost are not started anew") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Restarts restarts;
  const auto sleep = own_sleep();
  auto spec = shell("exec " + sleep);
  spec.restart = quickly(RestartPolicy::On::always, Gang::all);
  auto mesh = must(hosts.spawn("sleepers", extent("gpu=1"), spec, restarts.handlers()));
  const auto second = must(hosts.states())[1].pid;
  for (const auto warden : wardens_of(::getpid())) {
    const auto roles = find_roles(warden);
    if (roles && roles->agent == second) ::kill(warden, SIGKILL);
  }
  REQUIRE(wait_until([&] { return restarts.heard.failures().size() == 1; }, in_time));
  CHECK(restarts.heard.failures()[0].rank == 1);
  CHECK(restarts.heard.failures()[0].cause == Cause::host_lost);
  CHECK(restarts.count() == 0);
  CHECK(must(mesh.stop()).is_ended());
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE(
    "client: spec 8.9: another agent goes on in the middle of a second life, and begins the "
    "third") {
  const TempDir dir;
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Restarts restarts;
  auto spec = shell(
      "echo life $MESHBUS_RESTARTS; if [ $MESHBUS_RESTARTS = 2 ]; then exit 0; fi; until [ -e " +
      (dir / "go.$MESHBUS_RESTARTS") + " ]; do sleep 0.05; done; echo bye; exit 3");
  spec.output = OutputMode::stream;
  spec.restart = quickly(RestartPolicy::On::failure);
  auto mesh = must(hosts.spawn("lives", extent("gpu=1"), spec, restarts.handlers()));
  std::ofstream(dir / "go.0").flush();
  REQUIRE(wait_until([&] { return restarts.heard.output(0) == "life 0\nbye\nlife 1\n"; }, in_time));
  const auto agent = static_cast<pid_t>(must(hosts.states())[0].pid);
  ::kill(agent, SIGKILL);
  REQUIRE(wait_until(
      [&] {
        const auto states = hosts.states();
        return states && (*states)[0].code == ErrorCode::none && (*states)[0].pid != agent;
      },
      in_time));
  std::ofstream(dir / "go.1").flush();
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 0);
  CHECK(outcome.ranks[0].restarts == 2);
  CHECK(outcome.former_lives.size() == 2);
  CHECK(restarts.heard.output(0) == "life 0\nbye\nlife 1\nbye\nlife 2\n");
  CHECK(restarts.heard.failures().empty());
  must(hosts.shutdown(in_time));
}
