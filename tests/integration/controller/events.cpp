// meshbus-controller: real hosts, real procs, what it prints and what it tells subscribers.
#include <sys/socket.h>

#include <csignal>

#include "common/base/unique_fd.h"
#include "tests/integration/controller/subscriber.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// The lines so far that are whole.
std::vector<json> events(const Process& controller) {
  std::vector<json> list;
  const auto text = controller.out().substr(0, controller.out().rfind('\n') + 1);
  for (const auto& line : lines_of(text)) list.push_back(parse_json(line));
  return list;
}

std::size_t count(const Process& controller, const std::function<bool(const json&)>& is_meant) {
  const auto list = events(controller);
  return static_cast<std::size_t>(std::count_if(list.begin(), list.end(), is_meant));
}

std::function<bool(const json&)> state(std::uint64_t rank, const std::string& state) {
  return [=](const json& event) {
    return event.at("event") == "state" && event.at("rank") == rank && event.at("state") == state;
  };
}

Words controller(const std::string& hosts, const Words& more = {}) {
  Words words{
      bin("meshbus-controller"), "--hosts", hosts, "--set", "supervision.probe=100ms", "--set",
      "supervision.poll=1s"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("controller: a killed proc is reported exactly once, with place, signal and last words") {
  const StandingHost first;
  const StandingHost second;
  Process process(controller(first.address() + "," + second.address()));
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(
      context, "hosts",
      {must(HostAddr::parse(first.address())), must(HostAddr::parse(second.address()))}));
  const auto sleep = own_sleep();
  Heard heard;
  auto mesh = must(hosts.spawn("watched", extent("gpu=2"),
                               shell("echo last words >&2; exec " + sleep), heard.handlers()));
  REQUIRE(wait_until([&] { return count(process, state(3, "ready")) == 1; }, in_time));
  REQUIRE(wait_until([&] { return processes_with(sleep).size() == 4; }, in_time));
  ::kill(static_cast<pid_t>(mesh.known().ranks[3].pid), SIGKILL);
  REQUIRE(wait_until([&] { return count(process, state(3, "killed")) == 1; }, in_time));
  must(mesh.stop());
  // The ends of the others are told after it: by then a second report of the first would have come.
  REQUIRE(wait_until(
      [&] {
        return count(process, state(0, "stopped")) == 1 &&
               count(process, state(1, "stopped")) == 1 && count(process, state(2, "stopped")) == 1;
      },
      in_time));
  for (const auto& event : events(process)) {
    if (event.at("event") != "state" || event.at("rank") != 3 || event.at("state") != "killed")
      continue;
    INFO(event.dump());
    CHECK(event.at("mesh") == mesh.ref().mesh().to_string());
    CHECK(event.at("host") == second.address());
    CHECK(event.at("point") == "host=1/2,gpu=1/2");
    CHECK(event.at("signal") == 9);
    CHECK(event.at("exit_code").is_null());
    CHECK(event.at("pid") == mesh.known().ranks[3].pid);
    CHECK(event.at("stderr_tail") == json::array({"last words"}));
  }
  CHECK(count(process, state(3, "killed")) == 1);
  process.send_signal(SIGTERM);
  CHECK(process.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(process.err().empty());
}

TEST_CASE("controller: a host that goes is unreachable, once; it ends with its lifeline") {
  const StandingHost first;
  StandingHost second;
  int lifeline[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lifeline) == 0);
  UniqueFd mine(lifeline[0]);
  UniqueFd its(lifeline[1]);
  Process process(controller(first.address() + "," + second.address(),
                             {"--lifeline-fd", std::to_string(its.get())}),
                  {.inherit = {its.get()}});
  its.reset();
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(first.address()))}));
  auto mesh = must(hosts.spawn("m", extent("gpu=1"), shell("exec sleep 100")));
  REQUIRE(wait_until([&] { return count(process, state(0, "ready")) == 1; }, in_time));
  const auto is_lost = [&](const json& event) {
    return event.at("event") == "host_unreachable" && event.at("host") == second.address();
  };
  second.process().send_signal(SIGTERM);
  CHECK(second.process().wait_exit(in_time) == ExitStatus::exited(0));
  REQUIRE(wait_until([&] { return count(process, is_lost) == 1; }, in_time));
  must(mesh.stop());
  REQUIRE(wait_until([&] { return count(process, state(0, "stopped")) == 1; }, in_time));
  CHECK(count(process, is_lost) == 1);
  mine.reset();
  CHECK(process.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE(
    "controller: subscribers hear what is known at once, then each change once, until they leave") {
  const StandingHost host;
  const auto address = must(HostAddr::parse(host.address()));
  Process process(controller(host.address()));
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address}));
  Heard ignored;
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), shell("exec sleep 100"), ignored.handlers()));
  REQUIRE(wait_until([&] { return count(process, state(1, "ready")) == 1; }, in_time));

  Subscriber subscriber(address);
  const auto self = subscriber.self();
  CHECK(subscriber.ask<wire::SubscribeT>("unix:/somebody,else-11111111111b") ==
        ErrorCode::unauthorised);
  CHECK(subscriber.ask<wire::SubscribeT>("nonsense ,") == ErrorCode::parse_error);
  CHECK(subscriber.ask<wire::SubscribeT>(self, std::string(1000, 'x') + "!") ==
        ErrorCode::parse_error);
  CHECK(subscriber.ask<wire::SubscribeT>(self) == ErrorCode::none);
  CHECK(subscriber.ask<wire::SubscribeT>(self) == ErrorCode::none);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 2; }));
  ::kill(static_cast<pid_t>(mesh.known().ranks[0].pid), SIGKILL);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 3; }));
  CHECK(subscriber.heard[2].rank() == 0);
  CHECK(subscriber.heard[2].state() == wire::ProcState::killed);
  CHECK(subscriber.exit_reports == 1);
  CHECK(subscriber.ask<wire::UnsubscribeT>(self) == ErrorCode::none);
  CHECK(subscriber.ask<wire::UnsubscribeT>(self) == ErrorCode::none);
  subscriber.sequence = 0;
  must(mesh.stop());
  REQUIRE(wait_until([&] { return count(process, state(1, "stopped")) == 1; }, in_time));
  subscriber.reactor.turn(0ms);
  CHECK(subscriber.heard.size() == 3);
  // Late, and only one mesh: the ends are part of what is known.
  CHECK(subscriber.ask<wire::SubscribeT>(self, mesh.ref().mesh().to_string()) == ErrorCode::none);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 5; }));
  CHECK(subscriber.exit_reports == 3);
}

TEST_CASE(
    "controller: a kill is told when it happens, not at the next poll; of a slice only its ranks") {
  const StandingHost host;
  const auto address = must(HostAddr::parse(host.address()));
  Process process({bin("meshbus-controller"), "--hosts", host.address(), "--set",
                   "supervision.poll=1h", "--set", "supervision.probe=1m", "--set", "watchdog=3h"});
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address}));
  Heard ignored;
  auto mesh = must(hosts.spawn("m", extent("gpu=3"), shell("exec sleep 100"), ignored.handlers()));
  const auto name = mesh.ref().mesh().to_string();
  Subscriber subscriber(address);
  const auto self = subscriber.self();
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.ask<wire::SubscribeT>(self, name, {{1, 2}}) == ErrorCode::none; }));
  CHECK(subscriber.ask<wire::SubscribeT>(self, {}, {{1, 2}}) == ErrorCode::out_of_range);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 1; }));
  wire::GetSubscriberCountT count;
  count.mesh = name;
  CHECK(must(subscriber.ask(count)).body_as<wire::SubscriberCount>()->count() == 1);
  // Nothing but the agent's own word can tell of these within the hour.
  ::kill(static_cast<pid_t>(mesh.known().ranks[0].pid), SIGKILL);
  ::kill(static_cast<pid_t>(mesh.known().ranks[1].pid), SIGKILL);
  REQUIRE(subscriber.turn_until([&] { return subscriber.heard.size() == 2; }));
  CHECK(subscriber.heard[1].rank() == 1);
  CHECK(subscriber.heard[1].state() == wire::ProcState::killed);
  CHECK(subscriber.exit_reports == 1);
  wire::GetStateT get;
  get.mesh = "nothing-11111111111b";
  CHECK(subscriber.ask(get).error().code() == ErrorCode::not_exist);
  get.mesh = name;
  const auto answer = must(subscriber.ask(get));
  const auto* const state = answer.body_as<wire::ControllerState>();
  REQUIRE(state != nullptr);
  REQUIRE(state->meshes()->size() == 1);
  CHECK(state->meshes()->Get(0)->overall() == wire::StatusKind::failed);
  CHECK(state->meshes()->Get(0)->live() == 1);
  CHECK(state->meshes()->Get(0)->monitored());
  // A stop is taken at once; that all have ended is told.
  wire::StopProcsT stop;
  stop.mesh = name;
  stop.reason = "seen enough";
  stop.requester = self;
  stop.grace_ms = 5000;
  CHECK(subscriber.ask(stop).has_value());
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.kinds == std::vector{wire::MeshEventKind::ended}; }));
  CHECK(subscriber.ask(get)->body_as<wire::ControllerState>()->meshes()->Get(0)->live() == 0);
}

TEST_CASE("controller: heartbeats come at each poll, and a subscriber that is gone is forgotten") {
  const StandingHost host;
  const auto address = must(HostAddr::parse(host.address()));
  Process process(controller(host.address(), {"--set", "supervision.poll=200ms"}));
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address}));
  auto mesh = must(hosts.spawn("m", extent("gpu=1"), shell("exec sleep 100")));
  Subscriber subscriber(address);
  const auto self = subscriber.self();
  REQUIRE(subscriber.turn_until(
      [&] { return subscriber.ask<wire::SubscribeT>(self) == ErrorCode::none; }));
  {
    Subscriber other(address);
    const auto name = other.self();
    CHECK(other.ask<wire::SubscribeT>(name) == ErrorCode::none);
    CHECK(must(subscriber.ask(wire::GetSubscriberCountT()))
              .body_as<wire::SubscriberCount>()
              ->count() == 2);
  }
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats >= 3; }));
  REQUIRE(subscriber.turn_until([&] {
    return must(subscriber.ask(wire::GetSubscriberCountT()))
               .body_as<wire::SubscriberCount>()
               ->count() == 1;
  }));
  must(mesh.stop());
}

TEST_CASE("controller: says what is wrong with its command line") {
  CHECK(run({bin("meshbus-controller")}, in_time).status == ExitStatus::exited(2));
  const auto bad = run({bin("meshbus-controller"), "--hosts", "nowhere"}, in_time);
  CHECK(bad.status == ExitStatus::exited(2));
  CHECK(bad.err.find("nowhere") != std::string::npos);
  const auto setting = run(
      {bin("meshbus-controller"), "--hosts", "unix:/x", "--set", "supervision.pol=1s"}, in_time);
  CHECK(setting.status == ExitStatus::exited(2));
  CHECK(setting.err.find("supervision.poll") != std::string::npos);
}
