// What a controller says of ranks that it stops, or cannot reach (spec 3.1, 8.4, 8.7): the truth,
// and no more.
#include <algorithm>
#include <csignal>
#include <future>

#include "tests/integration/controller/harness.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE(
    "controller: spec 3.1, 8.7: what is on a host that does not answer is unknown, never stopped, "
    "and nothing has ended; then it is as it "
    "was") {
  Controlled watched(2, {"supervision.poll=500ms", "supervision.probe=100ms"});
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto hosts = must(HostMesh::attach(watched.context, "other", {watched.hosts->hosts()[1]}));
  auto mesh =
      must(hosts.spawn("far", extent("gpu=2"), shell("exec sleep 100"), watched.heard.handlers()));
  const auto name = mesh.ref().mesh().to_string();
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 2; }));
  CHECK(statuses_in(subscriber, name) == "Running=0..2");
  const auto roles = watched.standing[1].roles();
  for (const auto pid : {roles.broker, roles.agent}) ::kill(pid, SIGSTOP);
  REQUIRE(subscriber.turn_until([&] { return !subscriber.kinds.empty(); }));
  CHECK(subscriber.kinds.front() == wire::MeshEventKind::host_unreachable);
  CHECK(statuses_in(subscriber, name) == "Unknown=0..2");
  const auto overview = overview_of(subscriber, name);
  CHECK(overview.overall == wire::StatusKind::unknown);
  CHECK(overview.monitored);
  CHECK(overview.live == 2);
  const auto so_far = subscriber.heartbeats;
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats >= so_far + 2; }));
  const auto& heartbeat = subscriber.last_heartbeat;
  CHECK(heartbeat.unreachable == std::vector{watched.hosts->hosts()[1].to_string()});
  REQUIRE(heartbeat.meshes.size() == 1);
  CHECK(heartbeat.meshes[0]->overall == wire::StatusKind::unknown);
  // It does not satisfy a wait for the end, either.
  const auto waited = run_cli({"status", name, "--wait", "stopped", "--timeout", "1s", "--hosts",
                               watched.standing[1].address()});
  INFO(waited.out << waited.err);
  CHECK(waited.status != ExitStatus::exited(0));
  CHECK((waited.out + waited.err).find("Stopped") == std::string::npos);
  for (const auto pid : {roles.broker, roles.agent}) ::kill(pid, SIGCONT);
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.kinds.back() == wire::MeshEventKind::host_back; }));
  REQUIRE(subscriber.turn_until([&] { return statuses_in(subscriber, name) == "Running=0..2"; }));
  CHECK(subscriber.exit_reports == 0);
  must(mesh.stop());
  REQUIRE(
      subscriber.turn_until([&] { return subscriber.kinds.back() == wire::MeshEventKind::ended; }));
  CHECK(statuses_in(subscriber, name) == "Stopped=0..2");
  CHECK(watched.heard.failures().empty());
}

TEST_CASE(
    "controller: spec 8.4: stop by the controller, twice, while ranks are being started, and after "
    "the end") {
  Controlled watched(1, {"supervision.poll=300ms", "supervision.probe=100ms"});
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  const auto sleep = own_sleep();
  auto spawned = std::async(std::launch::async, [&] {
    auto spec = shell("exec " + sleep);
    spec.kind = ProcKind::mesh;  // which never says hello
    spec.ready_limit = 0ms;
    spec.grace = 2s;
    auto mesh = watched.hosts->spawn("late", extent("gpu=2"), spec, watched.heard.handlers());
    return mesh ? Error(ErrorCode::none, "a mesh") : mesh.error();
  });
  REQUIRE(wait_until([&] { return processes_with(sleep).size() == 2; }, in_time));
  std::string name;
  REQUIRE(subscriber.turn_until([&] {
    const auto answer = must(subscriber.ask(wire::ListMeshesT()));
    const auto* const meshes = answer.body_as<wire::ControllerState>()->meshes();
    if (meshes != nullptr && meshes->size() == 1) name = meshes->Get(0)->mesh()->str();
    return !name.empty();
  }));
  CHECK(subscriber.ask(stop_of(name, "not today")).has_value());
  CHECK(subscriber.ask(stop_of(name, "not today")).has_value());
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.kinds == std::vector{wire::MeshEventKind::ended}; }));
  const auto error = spawned.get();
  INFO(error.to_string());
  CHECK(error.code() == ErrorCode::proc_creation_error);
  CHECK(error.detail().find("somebody: not today") != std::string::npos);
  CHECK(processes_with(sleep).empty());
  CHECK(statuses_in(subscriber, name) == "Stopped=0..2");
  CHECK(heard_by(subscriber).size() == 2);
  CHECK(subscriber.exit_reports == 2);
  // A stop of a mesh that has ended, and of one that never existed.
  CHECK(subscriber.ask(stop_of(name, "again")).has_value());
  CHECK(subscriber.ask(stop_of("nothing-11111111111b", "again")).has_value());
  const auto so_far = subscriber.heartbeats;
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats >= so_far + 2; }));
  CHECK(heard_by(subscriber).size() == 2);
  CHECK(subscriber.kinds.size() == 1);
  CHECK(watched.heard.failures().empty());
}

TEST_CASE(
    "controller: spec 8.4: a stop that a host does not take, and ranks that do not mind it, are "
    "not called stopped before they are") {
  Controlled watched(2, {"supervision.poll=500ms", "supervision.probe=100ms"});
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto mesh = must(watched.hosts->spawn(
      "deaf", extent("gpu=1"), shell("trap '' TERM; echo up >&2; while :; do sleep 1; done"),
      watched.heard.handlers()));
  const auto name = mesh.ref().mesh().to_string();
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 2; }));
  const auto agent = watched.standing[1].roles().agent;
  ::kill(agent, SIGSTOP);
  // Answered at once, although the agent is stopped: events tell the outcome.
  const auto begin = std::chrono::steady_clock::now();
  CHECK(subscriber.ask(stop_of(name, "enough")).has_value());
  CHECK(std::chrono::steady_clock::now() - begin < 2s * slowness);
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 3; }));
  CHECK(heard_by(subscriber)[2].rank() == 0);
  CHECK(heard_by(subscriber)[2].state() == wire::ProcState::stopped);
  CHECK(heard_by(subscriber)[2].step() == wire::StopStep::kill);
  CHECK(overview_of(subscriber, name).live == 1);
  CHECK(overview_of(subscriber, name).monitored);
  CHECK(statuses_in(subscriber, name).find("Stopped=0..1") != std::string::npos);
  CHECK(statuses_in(subscriber, name).find("Stopped=0..2") == std::string::npos);
  CHECK(std::find(subscriber.kinds.begin(), subscriber.kinds.end(), wire::MeshEventKind::ended) ==
        subscriber.kinds.end());
  ::kill(agent, SIGCONT);
  REQUIRE(subscriber.turn_until([&] {
    return !subscriber.kinds.empty() && subscriber.kinds.back() == wire::MeshEventKind::ended;
  }));
  CHECK(heard_by(subscriber).size() == 4);
  CHECK(statuses_in(subscriber, name) == "Stopped=0..2");
  CHECK(must(mesh.wait(in_time)).is_ended());
  CHECK(watched.heard.failures().empty());
}
