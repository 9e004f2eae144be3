// Leases of actors (spec 5.4): what becomes of them when the launcher that made them goes without a
// word, while their procs live on.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>

#include "tests/support/sanitizer_scale.h"
#include "tests/support/wait.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

const ContextOptions& two_seconds() {
  static const ContextOptions options = quick({{"lease", "2s"}, {"supervision.probe", "200ms"}});
  return options;
}

HostAddr address_of(const StandingHost& host) {
  return must(HostAddr::parse(host.address()));
}

ProcSpec actor_procs() {
  return {.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}};
}

std::string states_of(const ActorView& actors) {
  std::string text;
  for (const auto& report : must(actors.states(in_time)))
    text += report.status.to_string() + (report.reason.empty() ? "" : ": " + report.reason) + ";";
  return text;
}

/// Nothing happens for so long; deadlines of others are longer.
void let_pass(std::chrono::milliseconds time) {
  const auto start = std::chrono::steady_clock::now();
  CHECK(wait_until([&] { return std::chrono::steady_clock::now() - start > time; }, in_time));
}

/// A launcher that makes procs which a controller answers for, and actors in them; then it waits to
/// be killed. Never returns.
[[noreturn]] void launch_and_wait(const HostAddr& host, int told) {
  auto context = must(Context::create(two_seconds()));
  auto hosts = must(HostMesh::attach(context, "hosts", {host}));
  // Until the controller is there.
  const auto heard = must(
      Subscription::open(context, {host}, {.deadline = in_time}, [](const SupervisionEvent&) {}));
  auto procs = must(hosts.spawn("work", extent("gpu=2"), actor_procs(),
                                {.on_failure = [](const RankReport&) {}}));
  if (const auto given =
          procs.handover(ProcId(host, ProcName(Name::controller())), {.deadline = in_time});
      !given)
    ::_exit(1);
  const auto tally =
      must(procs.spawn_actors("counter", "tally", "0", {.on_failure = [](const ActorReport&) {}}));
  const auto kept = must(procs.spawn_actors(
      "counter", "kept", "0", {.on_failure = [](const ActorReport&) {}, .detach = true}));
  const auto name = procs.ref().mesh().to_string() + "\n";
  if (::write(told, name.data(), name.size()) != static_cast<ssize_t>(name.size())) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE(
    "actors: spec 5.4: those of a launcher that is killed are stopped when their lease has lapsed, "
    "and nothing else is") {
  StandingHost standing;
  Process controller({bin("meshbus-controller"), "--hosts", standing.address()});
  int told[2];
  REQUIRE(::pipe2(told, O_CLOEXEC) == 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) launch_and_wait(address_of(standing), told[1]);
  ::close(told[1]);
  std::string name(128, '\0');
  const auto length = ::read(told[0], name.data(), name.size());
  ::close(told[0]);
  REQUIRE(length > 1);
  name.resize(static_cast<std::size_t>(length) - 1);

  auto context = must(Context::create());
  const auto hosts = must(HostMesh::attach(context, "hosts", {address_of(standing)}));
  const auto procs = must(must(hosts.meshes()).meshes.front().ref());
  CHECK(procs.mesh().to_string() == name);
  const auto tally =
      must(ActorView::attach(context, ActorMeshRef(procs, must(Name::parse("tally")))));
  const auto kept =
      must(ActorView::attach(context, ActorMeshRef(procs, must(Name::parse("kept")))));
  // Longer than the lease, which is renewed.
  let_pass(4s);
  CHECK(states_of(tally) == "Running;Running;");
  REQUIRE(::kill(launcher, SIGKILL) == 0);
  REQUIRE(::waitpid(launcher, nullptr, 0) == launcher);
  const std::string stopped = "Stopped: its lease has lapsed: nobody has renewed it for 2000 ms;";
  CHECK(wait_until([&] { return states_of(tally) == stopped + stopped; }, in_time));
  CHECK(states_of(kept) == "Running;Running;");
  CHECK(must(kept.call("add", "1", in_time))[1].value() == "1");
  // The agent notes it when an actor has answered, and we may have asked that one before.
  const auto is_noted = [&] {
    const auto events = must(hosts.events(name, in_time)).events;
    return std::any_of(events.begin(), events.end(), [&](const HostEvent& event) {
      return event.kind == EventKind::lease_lapsed &&
             event.text == "actors tally: its lease has lapsed: nobody has renewed it for 2000 ms";
    });
  };
  CHECK(wait_until(is_noted, in_time));
}

TEST_CASE(
    "actors: spec 5.4: an agent that takes over goes on with the leases of actors as they are "
    "renewed; detached ones need none") {
  StandingHost standing;
  auto context = must(Context::create(two_seconds()));
  auto hosts = must(HostMesh::attach(context, "hosts", {address_of(standing)}));
  Heard heard;
  auto procs = must(hosts.spawn("work", extent("gpu=2"), actor_procs(), heard.handlers()));
  auto tally =
      must(procs.spawn_actors("counter", "tally", "0", {.on_failure = [](const ActorReport&) {}}));
  std::optional<ActorView> left;
  {
    const auto kept = must(procs.spawn_actors(
        "counter", "kept", "0", {.on_failure = [](const ActorReport&) {}, .detach = true}));
    left = kept.all();
  }
  REQUIRE(::kill(standing.roles().agent, SIGKILL) == 0);
  let_pass(5s);
  CHECK(states_of(tally.all()) == "Running;Running;");
  CHECK(states_of(*left) == "Running;Running;");
  must(tally.stop());
  // The lease of those that were stopped lapses unnoticed.
  let_pass(3s);
  const auto events = must(hosts.events(procs.ref().mesh().to_string(), in_time)).events;
  CHECK(std::none_of(events.begin(), events.end(),
                     [](const HostEvent& event) { return event.kind == EventKind::lease_lapsed; }));
  must(procs.stop());
}

TEST_CASE(
    "actors: spec 5.4: a silent host is not waited for until the deadline: actors are made, there "
    "as elsewhere") {
  StandingHost first, second;
  auto context = must(Context::create(quick({{"session.away", "1h"}})));
  auto hosts = must(HostMesh::attach(context, "hosts", {address_of(first), address_of(second)}));
  Heard heard;
  auto procs = must(hosts.spawn("work", extent("gpu=1"), actor_procs(), heard.handlers()));
  const auto agent = second.roles().agent;
  REQUIRE(::kill(agent, SIGSTOP) == 0);
  // Nothing would be left of it if the agent were waited for until then.
  const auto tally =
      procs.spawn_actors("counter", "tally", "0",
                         {.deadline = 10s * slowness, .on_failure = [](const ActorReport&) {}});
  REQUIRE(::kill(agent, SIGCONT) == 0);
  INFO((tally ? std::string() : tally.error().to_string()));
  REQUIRE(tally.has_value());
  CHECK(states_of(tally->all()) == "Running;Running;");
  must(procs.stop());
}
