// meshbus-controller and its subscribers (spec 8.2, 8.5): whenever they come, and whatever becomes
// of them or of the controller.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string_view>

#include "tests/integration/controller/harness.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

constexpr const char* kSubscriberVariable = "MESHBUS_TEST_SUBSCRIBE_AT";
constexpr std::string_view kDirectory = "its directory: ";

}  // namespace

TEST_CASE(
    "controller: spec 8.2: who subscribes before a mesh is there, after a rank of it has died, or "
    "twice, hears each thing once") {
  Controlled watched(1, {"supervision.poll=300ms", "supervision.probe=100ms"});
  Subscriber before(watched.home()), twice(watched.home()), after(watched.home());
  subscribe_to(before);
  subscribe_to(twice);
  subscribe_to(twice);
  auto mesh = watched.sleepers("gpu=2");
  const auto name = mesh.ref().mesh().to_string();
  subscribe_to(twice, name);
  REQUIRE(
      turn_all({&before, &twice}, [](const Subscriber& one) { return heard_by(one).size() >= 2; }));
  kill_rank(mesh, 1);
  REQUIRE(turn_all({&before, &twice}, [](const Subscriber& one) { return one.exit_reports >= 1; }));
  subscribe_to(after, name);
  CHECK(count_of(after) == 3);
  REQUIRE(turn_all({&after}, [](const Subscriber& one) { return heard_by(one).size() >= 2; }));
  must(mesh.stop());
  const auto heard_end = [](const Subscriber& one) {
    return one.kinds == std::vector{wire::MeshEventKind::ended};
  };
  REQUIRE(turn_all({&before, &twice, &after}, heard_end));
  // Two more polls: by then whatever is told twice would have been.
  std::map<const Subscriber*, std::size_t> heartbeats;
  for (const auto* one : {&before, &twice, &after}) heartbeats[one] = one->heartbeats;
  REQUIRE(turn_all({&before, &twice, &after},
                   [&](const Subscriber& one) { return one.heartbeats >= heartbeats[&one] + 2; }));
  CHECK(heard_end(before));
  for (const auto* one : {&before, &after}) {
    INFO(states_in(*one));
    CHECK(heard_by(*one).size() == (one == &after ? 3U : 4U));
    CHECK(one->exit_reports == 2);
  }
  CHECK(states_in(before) == "0 ready, 1 ready, 1 killed, 0 stopped");
  CHECK(states_in(after) == "0 ready, 1 killed, 0 stopped");
  // It subscribed to everything, and then to this mesh, which told it anew what stood then; never a
  // change twice.
  INFO(states_in(twice));
  CHECK(twice.exit_reports == 2);
  CHECK(told_to(twice).size() == 5);  // each rank ready, each end, and the end of the mesh
}

TEST_CASE(
    "controller: spec 8.2: heartbeats go on beside a dead rank, name its mesh with the latest "
    "generation, and go on without any mesh") {
  Controlled watched(1, {"supervision.poll=200ms", "supervision.probe=100ms"});
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto mesh = watched.sleepers("gpu=2");
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 2; }));
  kill_rank(mesh, 0);
  REQUIRE(subscriber.turn_until([&] { return subscriber.exit_reports == 1; }));
  for (const auto enough = subscriber.heartbeats + 4; subscriber.heartbeats < enough;) {
    const auto poll = subscriber.last_heartbeat.poll;
    const auto so_far = subscriber.heartbeats;
    REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats > so_far; }));
    const auto& heartbeat = subscriber.last_heartbeat;
    CHECK(heartbeat.poll > poll);
    CHECK(heartbeat.interval_ms == 200);
    REQUIRE(heartbeat.meshes.size() == 1);
    const auto& one = *heartbeat.meshes[0];
    CHECK(one.mesh == mesh.ref().mesh().to_string());
    CHECK(one.generation == subscriber.generation);
    CHECK(one.overall == wire::StatusKind::failed);
    CHECK(one.monitored);
    CHECK(one.live == 1);
    CHECK(one.failed == 1);
  }
  CHECK(heard_by(subscriber).size() == 3);
  must(mesh.stop());
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.kinds == std::vector{wire::MeshEventKind::ended}; }));
  const auto so_far = subscriber.heartbeats;
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats > so_far + 2; }));
  CHECK(subscriber.last_heartbeat.meshes.empty());
  CHECK_FALSE(subscriber.misses_heartbeats());
}

// Not run by itself: the next test runs it in a test program of its own.
TEST_CASE("controller: a subscriber that says what it hears" * doctest::skip()) {
  const char* const address = std::getenv(kSubscriberVariable);
  REQUIRE(address != nullptr);
  Subscriber subscriber(must(HostAddr::parse(address)));
  subscribe_to(subscriber);
  std::cout << kDirectory << environment_root().string() << "\nsubscribed" << std::endl;
  std::size_t said = 0;
  (void)subscriber.turn_until([&] {
    for (; said < subscriber.heard.size(); ++said)
      std::cout << "heard " << subscriber.heard[said].rank() << " "
                << wire::EnumNameProcState(subscriber.heard[said].state()) << std::endl;
    return false;
  });
}

namespace {

/// The same in a test program of its own, to its end: a program that is killed leaves its directory
/// behind.
struct SubscriberProcess {
  explicit SubscriberProcess(const HostAddr& host)
      : process(std::in_place,
                Words{"/proc/" + std::to_string(::getpid()) + "/exe", "--no-skip",
                      "--test-case=controller: a subscriber that says what it hears"},
                ProcessOptions{.environment = {{kSubscriberVariable, host.to_string()}}}) {
    REQUIRE(wait_until([&] { return process->out().find("subscribed\n") != std::string::npos; },
                       in_time));
    for (const auto& line : lines_of(process->out())) {
      if (line.starts_with(kDirectory)) directory = line.substr(kDirectory.size());
    }
  }
  ~SubscriberProcess() {
    process.reset();
    std::filesystem::remove_all(directory);
  }

  std::optional<Process> process;
  std::filesystem::path directory;
};

}  // namespace

TEST_CASE(
    "controller: spec 8.2: subscribers that are killed are forgotten, one that is stopped hears "
    "all when it goes on; others hear at once") {
  Controlled watched(1, {"supervision.poll=300ms", "supervision.probe=100ms"});
  SubscriberProcess victim(watched.home()), sleeper(watched.home());
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  CHECK(count_of(subscriber) == 3);
  auto mesh = watched.sleepers("gpu=3");
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 3; }));
  for (auto* one : {&victim, &sleeper})
    REQUIRE(wait_until(
        [&] { return one->process->out().find("heard 2 ready\n") != std::string::npos; }, in_time));
  sleeper.process->send_signal(SIGSTOP);
  victim.process->send_signal(SIGKILL);
  CHECK(victim.process->wait_exit(in_time) == ExitStatus::killed_by(SIGKILL));
  kill_rank(mesh, 0);
  REQUIRE(subscriber.turn_until([&] { return subscriber.exit_reports == 1; }));
  REQUIRE(subscriber.turn_until([&] { return count_of(subscriber) == 2; }));
  kill_rank(mesh, 1);
  REQUIRE(subscriber.turn_until([&] { return subscriber.exit_reports == 2; }));
  // A stopped subscriber is not gone.
  CHECK(count_of(subscriber) == 2);
  CHECK(sleeper.process->out().find("killed") == std::string::npos);
  sleeper.process->send_signal(SIGCONT);
  CHECK(wait_until(
      [&] {
        return sleeper.process->out().find("heard 0 killed\nheard 1 killed\n") != std::string::npos;
      },
      in_time));
  must(mesh.stop());
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.kinds == std::vector{wire::MeshEventKind::ended}; }));
  CHECK(heard_by(subscriber).size() == 6);
}

TEST_CASE(
    "controller: spec 8.2, 8.5: who listens misses a controller that is killed, not one that is "
    "stopped for a moment; the next one is "
    "heard") {
  Controlled watched(1, {"supervision.poll=2s", "supervision.probe=200ms", "watchdog=10s"});
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto mesh = watched.sleepers("gpu=3");
  REQUIRE(subscriber.turn_until([&] { return heard_by(subscriber).size() == 3; }));
  const auto next_heartbeat = [&] {
    const auto so_far = subscriber.heartbeats;
    return subscriber.turn_until([&] { return subscriber.heartbeats > so_far; });
  };
  REQUIRE(next_heartbeat());
  watched.controller->send_signal(SIGSTOP);
  CHECK_FALSE(subscriber.turn_until([&] { return subscriber.misses_heartbeats(); }, 1500ms));
  watched.controller->send_signal(SIGCONT);
  REQUIRE(next_heartbeat());
  // For longer: it is missed, and is back, and knows that it was late.
  watched.controller->send_signal(SIGSTOP);
  REQUIRE(subscriber.turn_until([&] { return subscriber.misses_heartbeats(); }));
  CHECK_FALSE(subscriber.turn_until([&] { return !subscriber.misses_heartbeats(); }, 1s));
  watched.controller->send_signal(SIGCONT);
  REQUIRE(subscriber.turn_until([&] {
    return !subscriber.misses_heartbeats() && subscriber.last_heartbeat.late_polls == 1;
  }));

  watched.kill();
  const auto killed = std::chrono::steady_clock::now();
  REQUIRE(subscriber.turn_until([&] { return subscriber.misses_heartbeats(); }));
  CHECK(std::chrono::steady_clock::now() - killed < 4s * slowness + 1s);
  // A silent controller says nothing about ranks: one dies meanwhile, the others live.
  kill_rank(mesh, 1);
  CHECK(told_to(subscriber).size() == 3);
  watched.start();
  subscriber.sequence = 0;
  subscriber.feed.restart();
  subscribe_to(subscriber);
  REQUIRE(subscriber.turn_until(
      [&] { return !subscriber.misses_heartbeats() && told_to(subscriber).size() >= 4; }));
  REQUIRE(next_heartbeat());
  REQUIRE(told_to(subscriber).size() == 4);
  CHECK(told_to(subscriber)[3].rank.rank() == 1);
  CHECK(told_to(subscriber)[3].rank.state() == wire::ProcState::killed);
  CHECK(told_to(subscriber)[3].exit_report != nullptr);
  must(mesh.stop());
  REQUIRE(subscriber.turn_until([&] { return told_to(subscriber).size() == 7; }));
  CHECK(told_to(subscriber).back().kind == WatchEvent::Kind::ended);
}
