// Meshes that are left to a controller (spec 8.5): real hosts, real controllers, real procs, and
// everybody killed in turn.
#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "common/bus/bus.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/client_library.h"
#include "tests/world/session_options.h"
#include "wire/lifecycle_generated.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A controller of these hosts, which answers.
struct TestController {
  explicit TestController(const Words& hosts, const std::string& lease = "4s",
                          const Words& more = {})
      : process(words(hosts, lease, more)) {
    REQUIRE(wait_until(
        [&] {
          return run_cli({"controller", "list", "--hosts", joined(hosts)}).status ==
                 ExitStatus::exited(0);
        },
        in_time));
  }
  static std::string joined(const Words& hosts) {
    std::string list;
    for (const auto& host : hosts) list += (list.empty() ? "" : ",") + host;
    return list;
  }
  static Words words(const Words& hosts, const std::string& lease, const Words& more) {
    Words all{bin("meshbus-controller"), "--hosts", joined(hosts),    "--set",
              "supervision.probe=200ms", "--set",   "lease=" + lease, "--set",
              "terminate.grace=2s"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void kill() {
    process.send_signal(SIGKILL);
    process.wait_exit(in_time);
  }
  Process process;
};

/// What `meshbus spawn --json` says, done.
json spawn(const Words& hosts, const std::string& name, const Words& more,
           const std::string& script) {
  Words words{"spawn", name, "--hosts", TestController::joined(hosts), "--json"};
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  const auto done = run_cli(words);
  INFO(done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  return parse_json(done.out);
}

std::vector<pid_t> pids_of(const json& spawned) {
  std::vector<pid_t> pids;
  for (const auto& rank : spawned.at("ranks")) pids.push_back(rank.at("pid").get<pid_t>());
  return pids;
}

bool all_live(const std::vector<pid_t>& pids) {
  return std::none_of(pids.begin(), pids.end(), is_gone);
}

bool none_lives(const std::vector<pid_t>& pids) {
  return std::all_of(pids.begin(), pids.end(), is_gone);
}

/// The mesh in `meshbus ps --all --json`.
json mesh_in_ps(const std::string& hosts) {
  const auto meshes =
      parse_json(run_cli({"ps", "--all", "--json", "--hosts", hosts}).out).at("meshes");
  REQUIRE(meshes.size() == 1);
  return meshes[0];
}

/// They live at the end of it as they did at its beginning; if not, their hosts say why.
void check_live_for(const std::vector<pid_t>& pids, std::chrono::milliseconds time,
                    const Words& hosts) {
  const bool all_lived = !wait_until([&] { return !all_live(pids); }, time);
  INFO((all_lived
            ? std::string()
            : run_cli({"why", "left", "--rank", "0-3", "--hosts", TestController::joined(hosts)})
                  .out));
  CHECK(all_lived);
}

/// A controller of a release that restarts no ranks. It takes whatever it is offered.
class OldController {
 public:
  explicit OldController(const std::string& host) {
    const ProcId self(must(HostAddr::parse(host)), ProcName(Name::controller()));
    Dispatcher handlers;
    handlers.on<wire::OfferMesh>(Role::operate,
                                 [this, self](const Request& request, const wire::OfferMesh&) {
                                   wire::OfferAcceptedT accepted;
                                   accepted.owner = self.to_string();
                                   accepted.lease_ms = 4000;
                                   bus_->answer(request, std::move(accepted));
                                 });
    Bus::Events events;
    events.on_up = [this](const wire::Welcome&) { is_up_ = true; };
    bus_ = std::make_unique<Bus>(
        reactor_,
        session_options(self.host().zmq_endpoint(),
                        hello_of(wire::PeerKind::controller, self.to_string())),
        std::move(handlers), std::move(events));
    thread_ = std::thread([this] { reactor_.run(); });
    REQUIRE(wait_until([this] { return is_up_.load(); }, in_time));
  }
  ~OldController() {
    reactor_.stop();
    thread_.join();
  }

 private:
  Reactor reactor_;
  std::atomic<bool> is_up_{false};
  std::unique_ptr<Bus> bus_;
  std::thread thread_;
};

}  // namespace

TEST_CASE(
    "handover: spawn leaves a mesh to the controller and goes; the controller stops it when it "
    "ends, and says why") {
  const StandingHost first;
  const StandingHost second;
  const Words hosts{first.address(), second.address()};
  TestController controller(hosts);
  const auto spawned = spawn(hosts, "left", {"--per-host", "gpu=2"}, "exec sleep 300");
  const auto pids = pids_of(spawned);
  REQUIRE(pids.size() == 4);
  CHECK(spawned.at("controller") == first.address() + ",controller");
  // Two leases and more without any launcher.
  check_live_for(pids, 9s, hosts);
  const auto shown =
      parse_json(run_cli({"controller", "show", "left", "--json", "--hosts", first.address()}).out);
  REQUIRE(shown.size() == 1);
  REQUIRE(shown[0].at("meshes").size() == 1);
  const auto& mesh = shown[0].at("meshes")[0];
  CHECK(mesh.at("mesh") == spawned.at("mesh"));
  CHECK(mesh.at("owned") == true);
  CHECK(mesh.at("live") == 4);
  CHECK(mesh.at("lease_ms") == 4000);
  CHECK(mesh.at("owner") == first.address() + ",controller");

  controller.process.send_signal(SIGTERM);
  CHECK(controller.process.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(none_lives(pids));
  const auto why =
      run_cli({"why", "left", "--rank", "0-3", "--hosts", TestController::joined(hosts)});
  INFO(why.out << why.err);
  for (std::size_t at = 0, ranks = 0; ranks < 4; ++ranks, ++at) {
    at = why.out.find("the controller ends: SIGTERM", at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(why.out.find(first.address() + ",controller") != std::string::npos);
}

TEST_CASE(
    "handover: a launcher that is killed as soon as it is done leaves its procs to the controller, "
    "which may be killed and come back") {
  const StandingHost host;
  TestController controller({host.address()});
  Process launcher(cli({"spawn", "left", "--hosts", host.address(), "-n", "2", "--json", "--", "sh",
                        "-c", "exec sleep 300"}));
  launcher.wait_for_output("}", in_time);
  launcher.send_signal(SIGKILL);
  launcher.wait_exit(in_time);
  const auto pids = pids_of(mesh_in_ps(host.address()));
  REQUIRE(pids.size() == 2);
  controller.kill();
  {
    TestController again({host.address()});
    check_live_for(pids, 9s, {host.address()});
    CHECK(pids_of(mesh_in_ps(host.address())) == pids);
    CHECK(
        parse_json(run_cli({"controller", "show", "--json", "--hosts", host.address()}).out)[0].at(
            "owned") == 1);
    // Now for good.
    again.kill();
  }
  const auto gone = time_until([&] { return none_lives(pids); }, in_time);
  REQUIRE(gone.has_value());
  CHECK(*gone < (4s + 2s) * slowness);
  const auto why = run_cli({"why", "left", "--hosts", host.address()});
  CHECK(why.out.find("did not renew its lease of 4000 ms") != std::string::npos);
}

TEST_CASE(
    "handover: an agent that is killed right after it is followed by one that knows the new "
    "owner") {
  const StandingHost host;
  TestController controller({host.address()});
  const auto before = find_roles(host.roles().warden);
  REQUIRE(before);
  const auto pids = pids_of(spawn({host.address()}, "left", {"-n", "2"}, "exec sleep 300"));
  REQUIRE(::kill(before->agent, SIGKILL) == 0);
  const auto is_replaced = [&] {
    const auto now = find_roles(before->warden);
    return now && now->agent != before->agent;
  };
  REQUIRE(wait_until(is_replaced, in_time));
  check_live_for(pids, 9s, {host.address()});
  const auto shown =
      parse_json(run_cli({"controller", "show", "--json", "--hosts", host.address()}).out);
  CHECK(shown[0].at("owned") == 1);
  CHECK(pids_of(mesh_in_ps(host.address())) == pids);
  CHECK(run_cli({"stop", "left", "--hosts", host.address()}).status == ExitStatus::exited(0));
}

TEST_CASE("handover: without a controller that takes it nothing is started") {
  const StandingHost first;
  const StandingHost second;
  const auto spawn_on = [&](const std::string& hosts) {
    return run_cli({"spawn", "left", "--hosts", hosts, "--", "sleep", "300"});
  };
  const auto begin = std::chrono::steady_clock::now();
  const auto none = spawn_on(first.address());
  // It says so at once, and does not wait as for a proc that is being started (delivery.starting, 5
  // s).
  CHECK(std::chrono::steady_clock::now() - begin < 4s * slowness);
  CHECK(none.status == ExitStatus::exited(1));
  CHECK(none.err.find("no controller has registered at " + first.address()) != std::string::npos);
  const auto nobody = run_cli({"controller", "list", "--hosts", first.address()});
  CHECK(nobody.status == ExitStatus::exited(1));
  CHECK(nobody.err.find("no controller answers at these hosts") != std::string::npos);
  TestController controller({first.address()});
  const auto half = spawn_on(first.address() + "," + second.address());
  CHECK(half.status == ExitStatus::exited(1));
  CHECK(half.err.find("does not watch " + second.address()) != std::string::npos);
  CHECK(parse_json(run_cli({"ps", "--all", "--json", "--hosts", first.address()}).out)
            .at("meshes")
            .empty());
}

TEST_CASE("handover: who says so waits for a controller that is to come, or to come back") {
  const StandingHost host;
  const auto spawn_on_host = [&](const std::string& name) {
    return cli({"spawn", name, "--hosts", host.address(), "--wait-for-controller", "--timeout",
                "60s", "--", "sleep", "300"});
  };
  Process early(spawn_on_host("early"));
  {
    TestController controller({host.address()});
    CHECK(early.wait_exit(in_time) == ExitStatus::exited(0));
    controller.kill();
  }
  Process between(spawn_on_host("between"));
  TestController again({host.address()});
  CHECK(between.wait_exit(in_time) == ExitStatus::exited(0));
  const auto late =
      run_cli({"spawn", "late", "--hosts", host.address(), "--controller", "unix:/nowhere/at/all",
               "--wait-for-controller", "--timeout", "1s", "--", "sleep", "300"});
  CHECK(late.status == ExitStatus::exited(1));
}

TEST_CASE(
    "handover: a mesh that is detached outlives its controller, and is given to the next one") {
  const StandingHost host;
  std::vector<pid_t> pids;
  {
    TestController controller({host.address()}, "1s");
    pids = pids_of(spawn({host.address()}, "left", {"-n", "2", "--detach"}, "exec sleep 300"));
    controller.kill();
  }
  REQUIRE(wait_until(
      [&] {
        return run_cli({"why", "left", "--hosts", host.address()})
                   .out.find("nobody answers for it") != std::string::npos;
      },
      in_time));
  TestController next({host.address()});
  const auto& address = host.address();
  const auto shown = parse_json(run_cli({"controller", "show", "--json", "--hosts", address}).out);
  CHECK(shown[0].at("meshes")[0].at("owner").is_null());
  Words command{"controller", "handover", "left", "--hosts", address};
  SUBCASE("by its address") {
    command.insert(command.end(), {"--to", address});
  }
  // It has the address of the one that answered for the mesh.
  SUBCASE("as the only one there") {}
  const auto given = run_cli(command);
  INFO(given.err);
  CHECK(given.status == ExitStatus::exited(0));
  CHECK(all_live(pids));
  const auto nobody = run_cli({"controller", "handover", "left", "--hosts", address});
  CHECK(nobody.status == ExitStatus::exited(1));
  CHECK(nobody.err.find(address + ",controller answers for left-") != std::string::npos);
  CHECK(nobody.err.find(" already, and there is no other controller at these hosts") !=
        std::string::npos);
  CHECK(run_cli({"stop", "left", "--hosts", address}).status == ExitStatus::exited(0));
  CHECK(none_lives(pids));
  // A mesh that has ended is not counted among those that it watches.
  CHECK(wait_until(
      [&] {
        return run_cli({"controller", "list", "--hosts", address})
                   .out.find("watches 0 live meshes, 1 ended, ") != std::string::npos;
      },
      in_time));
  next.process.send_signal(SIGTERM);
  CHECK(next.process.wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("handover: a controller gives a mesh to another one") {
  const StandingHost first;
  const StandingHost second;
  TestController a({first.address(), second.address()});
  TestController b({second.address(), first.address()});
  const Words both{first.address(), second.address()};
  const auto pids =
      pids_of(spawn(both, "left", {"--controller", first.address()}, "exec sleep 300"));
  const auto given = run_cli({"controller", "handover", "left", "--to", second.address(), "--hosts",
                              TestController::joined(both)});
  INFO(given.err);
  REQUIRE(given.status == ExitStatus::exited(0));
  a.process.send_signal(SIGTERM);
  CHECK(a.process.wait_exit(in_time) == ExitStatus::exited(0));
  check_live_for(pids, 6s, both);
  b.process.send_signal(SIGTERM);
  CHECK(b.process.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(none_lives(pids));
}

TEST_CASE(
    "handover: a mesh with a restart policy is not given to a controller that restarts no ranks") {
  const StandingHost first;
  const StandingHost second;
  const Words both{first.address(), second.address()};
  TestController controller(both);
  const OldController old(second.address());
  const auto give = [&] {
    return run_cli({"controller", "handover", "left", "--to", second.address(), "--hosts",
                    TestController::joined(both)});
  };
  const auto pids =
      pids_of(spawn(both, "left", {"--controller", first.address(), "--restart", "on-failure:2"},
                    "exec sleep 300"));
  const auto refused = give();
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(refused.err.find("restarts no ranks") != std::string::npos);
  const auto shown =
      parse_json(run_cli({"controller", "show", "left", "--json", "--hosts", first.address()}).out);
  CHECK(shown[0].at("owned") == 1);
  CHECK(all_live(pids));
  // It owns no hosts either.
  const auto own = run_cli(
      {"controller", "own", "--to", second.address(), "--hosts", TestController::joined(both)});
  CHECK(own.status == ExitStatus::exited(1));
  CHECK(own.err.find("owns no hosts") != std::string::npos);
  CHECK(run_cli({"stop", "left", "--hosts", TestController::joined(both)}).status ==
        ExitStatus::exited(0));
}

TEST_CASE(
    "handover: the library's mesh is let go of; it says where it could not be done, and does it "
    "again") {
  const StandingHost first;
  const StandingHost second;
  TestController controller({first.address(), second.address()});
  const auto to = must(ProcId::parse(first.address() + ",controller"));
  std::vector<pid_t> pids;
  Heard heard;
  {
    auto context = must(Context::create());
    auto hosts = must(HostMesh::attach(
        context, "hosts",
        {must(HostAddr::parse(first.address())), must(HostAddr::parse(second.address()))}));
    ProcSpec spec = shell("echo up; exec sleep 300");
    spec.output = OutputMode::stream;
    auto mesh = must(hosts.spawn("left", extent("gpu=1"), std::move(spec), heard.handlers()));
    for (const auto& rank : mesh.known().ranks) pids.push_back(static_cast<pid_t>(rank.pid));
    REQUIRE(wait_until([&] { return heard.output(0) == "up\n" && heard.output(1) == "up\n"; },
                       in_time));
    // A host that does not answer.
    const auto agent = find_roles(second.roles().warden)->agent;
    REQUIRE(::kill(agent, SIGSTOP) == 0);
    const auto partial = mesh.handover(to, {.detach = false, .lease = {}, .deadline = 6s});
    // When the agent goes on it carries out what has come meanwhile.
    CHECK_FALSE(mesh.is_handed_over());
    REQUIRE(::kill(agent, SIGCONT) == 0);
    REQUIRE_FALSE(partial.has_value());
    CHECK(partial.error().detail().find("not " + second.address()) != std::string::npos);
    CHECK(mesh.handover(to).has_value());
    CHECK(mesh.handover(to).has_value());
    CHECK(mesh.is_handed_over());
  }
  check_live_for(pids, 6s, {first.address(), second.address()});
  const auto logs = run_cli({"logs", "left", "--hosts", first.address() + "," + second.address()});
  CHECK(lines_of(logs.out).size() == 2);
  CHECK(run_cli({"stop", "left", "--hosts", first.address() + "," + second.address()}).status ==
        ExitStatus::exited(0));
}
