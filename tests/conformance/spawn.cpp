// Spec 6.2: spawn() gives a mesh, or says what went wrong and leaves nothing. (That a command
// cannot be executed: tests/integration/client/spawn.cpp.)
#include <algorithm>
#include <csignal>
#include <future>
#include <stop_token>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

struct Launcher {
  explicit Launcher(std::string_view hosts_extent,
                    std::vector<std::pair<std::string, std::string>> settings = {})
      : context(must(Context::create(quick(std::move(settings))))),
        hosts(must(HostMesh::process(context, extent(hosts_extent), of_this_build()))) {}
  Context context;
  HostMesh hosts;
};

/// Processes of this program that run as procs with this argument.
std::size_t procs_with(const std::string& argument) {
  return own_processes_with("meshbus_conformance_tests " + argument).size();
}

}  // namespace

TEST_CASE(
    "spec 6.2: the extent of a mesh is that of its hosts and what each has, and every rank knows "
    "its place in it") {
  Launcher launcher("rack=2,host=1");
  auto mesh = must(launcher.hosts.spawn("trainers", extent("numa=1,gpu=2"), self({"serve"})));
  CHECK(mesh.ref().region().extent().to_argument() == "rack=2,host=1,numa=1,gpu=2");
  CHECK(to_string(must(mesh.wait_status(Status::Kind::running,
                                        {.deadline = in_time, .idle = {}}))) == "Running=0..4");
  for (const auto& rank : must(mesh.status())) {
    CHECK(rank.state == ProcState::ready);
    CHECK(rank.host_index == rank.rank / 2);
  }
  CHECK(texts(must(launcher.context.call(mesh.ref(), Port::place, "", in_time)))[3] ==
        "trainers 3 at rack=1/2,host=0/1,numa=0/1,gpu=1/2 as rack=1/2,host=0/1,numa=0/1,gpu=1/2");
  CHECK(must(mesh.stop()).is_ended());
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.2: a per-host label that is also a host label is a configuration_error that names it, "
    "before anything starts") {
  Launcher launcher("rack=1,host=1");
  for (const char* const per_host : {"gpu=2,rack=2", "rack=1", "host=1,gpu=2"}) {
    const auto mesh = launcher.hosts.spawn("m", extent(per_host), self({"serve"}));
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().code() == ErrorCode::configuration_error);
    CHECK(mesh.error().detail().find(std::string(per_host).find("rack") != std::string::npos
                                         ? "rack"
                                         : "host") != std::string::npos);
  }
  CHECK(must(launcher.hosts.meshes()).meshes.empty());
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.2: ranks that hang are named at the deadline, by host and with the stage in which they "
    "are stuck; nothing is left") {
  Launcher launcher("host=2");
  auto spec = self({"hang", "1", "2"});
  spec.grace = 1s;
  // Long enough for the others under load; theirs is over long before.
  spec.ready_limit = 8s;
  const auto mesh = launcher.hosts.spawn("stuck", extent("gpu=2"), spec);
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().code() == ErrorCode::proc_spawn_error);
  const auto& detail = mesh.error().detail();
  for (std::uint64_t rank : {1U, 2U}) {
    CHECK(detail.find("on " + launcher.hosts.hosts()[rank / 2].to_string() + ": rank " +
                      std::to_string(rank) + " exec'd, ") != std::string::npos);
  }
  CHECK(detail.find("rank 0 (") == std::string::npos);
  CHECK(detail.find("rank 3 (") == std::string::npos);
  REQUIRE(mesh.error().reports() != nullptr);
  const auto& reports = *mesh.error().reports();
  CHECK(std::any_of(reports.begin(), reports.end(),
                    [](const RankReport& report) { return report.rank == 1; }));
  CHECK(procs_with("hang 1 2") == 0);
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE("spec 6.2: a spawn that is given up stops what it has started, and says so") {
  Launcher launcher("host=2");
  std::stop_source source;
  auto spec = self({"hang", "0", "3"});
  spec.stop = source.get_token();
  auto spawned = std::async(
      std::launch::async, [&] { return launcher.hosts.spawn("given_up", extent("gpu=2"), spec); });
  REQUIRE(wait_until([] { return procs_with("hang 0 3") == 4; }, in_time));
  source.request_stop();
  const auto mesh = spawned.get();
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().code() == ErrorCode::proc_spawn_error);
  CHECK(mesh.error().detail().find("the spawn was given up") != std::string::npos);
  CHECK(procs_with("hang 0 3") == 0);
  // One that was given up before it began starts nothing.
  const auto none = launcher.hosts.spawn("given_up", extent("gpu=2"), spec);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().detail().find("the spawn was given up") != std::string::npos);
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 7.2: actors whose constructors hang are named by rank at the deadline; those that were "
    "made are stopped, the procs are as "
    "before") {
  Launcher launcher("host=2");
  Heard heard;
  auto mesh = must(launcher.hosts.spawn("m", extent("gpu=2"), self({"serve"}), heard.handlers()));
  const auto begin = std::chrono::steady_clock::now();
  const auto stuck = mesh.spawn_actors("sitter", "stuck", "1 2", {.deadline = 5s});
  CHECK(std::chrono::steady_clock::now() - begin < in_time);
  REQUIRE_FALSE(stuck.has_value());
  INFO(stuck.error().to_string());
  CHECK(stuck.error().code() == ErrorCode::actor_spawn_error);
  const auto says = [&](const std::string& text) {
    return stuck.error().detail().find(text) != std::string::npos;
  };
  CHECK(says("2 of 4 were not made: rank"));
  // Together when they have waited for equally many milliseconds.
  CHECK((says("ranks 1-2: timeout: ") || (says("rank 1: timeout: ") && says("rank 2: timeout: "))));
  const auto view = must(
      ActorView::attach(launcher.context, ActorMeshRef(mesh.ref(), must(Name::plain("stuck")))));
  CHECK(wait_until(
      [&] {
        const auto states = must(view.states(in_time));
        return states[0].status == Status::Kind::stopped &&
               states[3].status == Status::Kind::stopped;
      },
      in_time));
  // Nothing that hangs is called stopped.
  const auto states = must(view.states(in_time));
  for (const std::size_t rank : {1U, 2U}) CHECK_FALSE(states[rank].status == Status::Kind::stopped);
  auto fine = must(mesh.spawn_actors("adder", "fine", "1"));
  CHECK(texts(must(fine.call("add", "1", in_time))) == Words(4, "2"));
  must(fine.stop());
  CHECK(must(mesh.stop()).is_ended());
  CHECK(heard.failures().empty());
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.2: a rank that ends right after it was ready is heard of exactly once, as an error of "
    "the spawn or by the handler") {
  Launcher launcher("host=1");
  int spawned = 0;
  for (int round = 0; round < 6; ++round) {
    const bool is_kill = round % 2 == 1;
    Heard heard;
    auto mesh = launcher.hosts.spawn("short", extent("gpu=2"),
                                     self({is_kill ? "kill" : "exit", "1"}), heard.handlers());
    const std::string how = is_kill ? "killed by SIGKILL" : "exit 3";
    if (!mesh) {
      INFO(mesh.error().to_string());
      CHECK(mesh.error().code() == ErrorCode::proc_creation_error);
      CHECK(mesh.error().detail().find("rank 1 (host=0,gpu=1 on ") != std::string::npos);
      CHECK(mesh.error().detail().find(how) != std::string::npos);
      CHECK(heard.failures().empty());
    } else {
      ++spawned;
      const auto outcome = must(mesh->wait_for_failure(in_time));
      REQUIRE(outcome.first_failure.has_value());
      CHECK(outcome.first_failure->rank == 1);
      CHECK(outcome.first_failure->words().starts_with(how));
      must(mesh->stop());
      REQUIRE(heard.failures().size() == 1);
      CHECK(heard.failures()[0].rank == 1);
    }
    CHECK(procs_with(is_kill ? "kill 1" : "exit 1") == 0);
  }
  MESSAGE(spawned, " of 6 were a mesh before the end came");
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.2: a partial mesh, when asked for, is one of the ranks that did start; its slices "
    "beside the others are as any") {
  Launcher launcher("host=2");
  Heard heard;
  auto spec = self({"early", "1", "2"});
  const auto refused = launcher.hosts.spawn("whole", extent("gpu=2"), spec, heard.handlers());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::proc_creation_error);
  CHECK(procs_with("early 1 2") == 0);
  CHECK(heard.failures().empty());

  spec.partial = true;
  auto mesh = must(launcher.hosts.spawn("part", extent("gpu=2"), spec, heard.handlers()));
  REQUIRE(wait_until([&] { return heard.failures().size() == 2; }, in_time));
  CHECK(heard.failures()[0].exit_code == 7);
  CHECK(codes(must(launcher.context.call(mesh.ref(), Port::echo, "", in_time))) ==
        std::vector{ErrorCode::none, ErrorCode::no_such_proc, ErrorCode::no_such_proc,
                    ErrorCode::none});
  const auto corner = must(must(mesh.ref().at("host", 1)).range("gpu", 1));
  CHECK(texts(must(launcher.context.call(corner, Port::place, "", in_time))) ==
        Words{"part 3 at host=1/2,gpu=1/2 as gpu=0/1"});
  CHECK(to_string(must(launcher.hosts.statuses(mesh.ref()))) == "Running=0..1,3..4;Stopped=1..3");
  const auto whole = mesh.spawn_actors("adder", "sum", "1");
  REQUIRE_FALSE(whole.has_value());
  CHECK(whole.error().code() == ErrorCode::actor_spawn_error);
  CHECK(whole.error().detail().find("2 of 4 were not made") != std::string::npos);
  auto some = must(mesh.spawn_actors("adder", "some", "1", {.region = corner.region()}));
  CHECK(texts(must(some.call("add", "2", in_time))) == Words{"3"});
  must(some.stop());
  CHECK(must(mesh.stop()).is_ended());
  CHECK(heard.failures().size() == 2);
  must(launcher.hosts.shutdown(in_time));
}

TEST_CASE("spec 6.2: a stop while ranks are being started leaves none of them, whoever asks") {
  Launcher launcher("host=2");
  const auto sleep = own_sleep();
  Heard heard;
  // The owner, right after the hosts have taken the order.
  for (int round = 0; round < 5; ++round) {
    auto spec = shell("exec " + sleep);
    spec.wait_ready = false;
    auto mesh = must(launcher.hosts.spawn("early", extent("gpu=4"), spec, heard.handlers()));
    const auto outcome = must(mesh.stop({.reason = "changed my mind"}));
    CHECK(outcome.is_ended());
    for (const auto& rank : outcome.ranks) {
      INFO(rank.describe());
      CHECK_FALSE(rank.is_failure());
    }
    CHECK(processes_with(sleep).empty());
  }
  CHECK(heard.failures().empty());

  // Somebody else, while the owner waits for procs that never say hello: it is told at once, not at
  // its deadline.
  auto other_context = must(Context::create());
  auto other = must(HostMesh::attach(other_context, "same", launcher.hosts.hosts()));
  const auto spawn = [&] {
    auto spec = shell("exec " + sleep);
    spec.kind = ProcKind::mesh;
    spec.grace = 2s;
    spec.ready_limit = 0ms;
    const auto begin = std::chrono::steady_clock::now();
    auto mesh = launcher.hosts.spawn("late", extent("gpu=2"), spec, heard.handlers());
    CHECK(std::chrono::steady_clock::now() - begin < 25s);
    return mesh ? Error(ErrorCode::none, "a mesh") : mesh.error();
  };
  auto error = std::async(std::launch::async, spawn);
  REQUIRE(wait_until([&] { return processes_with(sleep).size() == 4; }, in_time));
  const auto listing = must(other.meshes());
  const auto late = std::find_if(listing.meshes.begin(), listing.meshes.end(),
                                 [](const auto& one) { return one.name.starts_with("late-"); });
  REQUIRE(late != listing.meshes.end());
  must(other.stop_mesh(late->name, {.reason = "not today"}));
  const auto stopped = error.get();
  INFO(stopped.to_string());
  CHECK(stopped.code() == ErrorCode::proc_creation_error);
  CHECK(stopped.detail().find("not today") != std::string::npos);
  CHECK(processes_with(sleep).empty());

  // And a shutdown of the hosts.
  error = std::async(std::launch::async, spawn);
  REQUIRE(wait_until([&] { return processes_with(sleep).size() == 4; }, in_time));
  must(launcher.hosts.shutdown(in_time));
  const auto shut = error.get();
  INFO(shut.to_string());
  CHECK(shut.code() != ErrorCode::none);
  CHECK(processes_with(sleep).empty());
  CHECK(heard.failures().empty());
}
