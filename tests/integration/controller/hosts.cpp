// Hosts that are left to a controller (spec 8.5): they end with it, or with its lease.
#include <csignal>

#include "tests/support/sanitizer_scale.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

std::string list_of(const Words& hosts) {
  std::string list;
  for (const auto& host : hosts) list += (list.empty() ? "" : ",") + host;
  return list;
}

/// A controller of these hosts, which answers.
class HostOwnerProgram {
 public:
  explicit HostOwnerProgram(const Words& hosts, const std::string& lease = "4s")
      : process_({bin("meshbus-controller"), "--hosts", list_of(hosts), "--set",
                  "supervision.probe=200ms", "--set", "lease=" + lease, "--set",
                  "terminate.grace=2s"}),
        id_(must(ProcId::parse(hosts.front() + ",controller"))) {
    REQUIRE(wait_until(
        [&] {
          return run_cli({"controller", "list", "--hosts", list_of(hosts)}).status ==
                 ExitStatus::exited(0);
        },
        in_time));
  }
  const ProcId& id() const { return id_; }
  void kill() {
    process_.send_signal(SIGKILL);
    process_.wait_exit(in_time);
  }
  /// Ends it as an operator does.
  ExitStatus stop() {
    const auto stopped = run_cli({"controller", "stop", id_.host().to_string(), "--hosts",
                                  id_.host().to_string(), "--timeout", "30s"});
    INFO(stopped.err);
    CHECK(stopped.status == ExitStatus::exited(0));
    return process_.wait_exit(in_time);
  }
  ExitStatus end() {
    process_.send_signal(SIGTERM);
    return process_.wait_exit(in_time);
  }

 private:
  Process process_;
  ProcId id_;
};

HostMeshRef ref_of(const Words& hosts) {
  std::vector<HostAddr> addresses;
  for (const auto& host : hosts) addresses.push_back(must(HostAddr::parse(host)));
  return must(HostMeshRef::make(must(Name::make("pool")),
                                Region(extent("host=" + std::to_string(hosts.size()))),
                                std::move(addresses)));
}

/// The owners of these hosts, as they say.
Words owners_of(Context& context, const Words& hosts) {
  Words owners;
  auto mesh = must(HostMesh::attach(context, ref_of(hosts)));
  for (const auto& report : must(mesh.states())) owners.push_back(report.owner);
  return owners;
}

bool has_ended(StandingHost& host) {
  return is_gone(host.process().pid());
}

/// It lives at the end of that time.
void check_lives_for(StandingHost& host, std::chrono::milliseconds time) {
  CHECK_FALSE(wait_until([&] { return has_ended(host); }, time));
}

}  // namespace

TEST_CASE(
    "hosts: those that a launcher has handed over are their controller's, and end with it when it "
    "ends in order") {
  StandingHost first;
  StandingHost second;
  const Words hosts{first.address(), second.address()};
  HostOwnerProgram controller(hosts);
  std::vector<pid_t> pids;
  {
    auto context = must(Context::create());
    auto mesh = must(HostMesh::take(context, ref_of(hosts)));
    auto procs = must(mesh.spawn("left", extent("gpu=1"), shell("exec sleep 300"),
                                 {.on_failure = [](const RankReport&) {}}));
    for (const auto& rank : procs.known().ranks) pids.push_back(static_cast<pid_t>(rank.pid));
    REQUIRE(procs.handover(controller.id()).has_value());
    CHECK_FALSE(mesh.is_handed_over());
    const auto given = mesh.handover(controller.id());
    INFO((given ? std::string() : given.error().to_string()));
    REQUIRE(given.has_value());
    CHECK(mesh.is_handed_over());
    CHECK(mesh.handover(controller.id()).has_value());
    const auto other = mesh.handover(must(ProcId::parse(second.address() + ",controller")));
    REQUIRE_FALSE(other.has_value());
    CHECK(other.error().code() == ErrorCode::refused);
    CHECK(other.error().detail().find(controller.id().to_string() + " answers for host 0") !=
          std::string::npos);
  }
  // Two leases and more without any launcher.
  check_lives_for(second, 9s);
  CHECK(std::none_of(pids.begin(), pids.end(), is_gone));
  auto context = must(Context::create());
  CHECK(owners_of(context, hosts) ==
        Words{controller.id().to_string(), controller.id().to_string()});
  const auto shown =
      parse_json(run_cli({"controller", "list", "--json", "--hosts", first.address()}).out);
  CHECK(shown[0].at("hosts").size() == 2);

  CHECK(controller.stop() == ExitStatus::exited(0));
  CHECK(wait_until([&] { return has_ended(first) && has_ended(second); }, in_time));
  CHECK(std::all_of(pids.begin(), pids.end(), is_gone));
  CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("hosts: one that was handed over a moment ago ends with its controller, too") {
  for (int round = 0; round < 3; ++round) {
    StandingHost host;
    // Much longer than this test waits.
    HostOwnerProgram controller({host.address()}, "120s");
    REQUIRE(run_cli({"controller", "own", "--hosts", host.address()}).status ==
            ExitStatus::exited(0));
    CHECK(controller.end() == ExitStatus::exited(0));
    CHECK(wait_until([&] { return has_ended(host); }, 30s));
  }
}

TEST_CASE(
    "hosts: a controller that is killed and comes back goes on; without one they end with the "
    "lease, and so do their procs") {
  StandingHost host;
  const Words hosts{host.address()};
  auto context = must(Context::create());
  {
    HostOwnerProgram controller(hosts);
    REQUIRE(must(HostMesh::take(context, ref_of(hosts))).handover(controller.id()).has_value());
    // An agent that is killed is followed by one that knows the owner.
    const auto before = find_roles(host.roles().warden);
    REQUIRE(before);
    REQUIRE(::kill(before->agent, SIGKILL) == 0);
    REQUIRE(wait_until(
        [&] {
          const auto now = find_roles(before->warden);
          return now && now->agent != before->agent;
        },
        in_time));
    controller.kill();
  }
  HostOwnerProgram again(hosts);
  check_lives_for(host, 9s);
  CHECK(owners_of(context, hosts) == Words{again.id().to_string()});
  again.kill();
  const auto gone = time_until([&] { return has_ended(host); }, in_time);
  REQUIRE(gone.has_value());
  CHECK(*gone < (4s + 3s) * slowness);
}

TEST_CASE(
    "hosts: those that are detached go on without their controller, and are given to another one") {
  StandingHost host;
  const Words hosts{host.address()};
  auto context = must(Context::create());
  {
    HostOwnerProgram controller(hosts, "1s");
    REQUIRE(run_cli({"controller", "own", "--hosts", host.address()}).status ==
            ExitStatus::exited(0));
    // The terms may change.
    const auto given = run_cli({"controller", "own", "--detach", "--hosts", host.address()});
    INFO(given.err);
    REQUIRE(given.status == ExitStatus::exited(0));
    CHECK(owners_of(context, hosts) == Words{controller.id().to_string()});
    CHECK(controller.end() == ExitStatus::exited(0));
  }
  REQUIRE(wait_until([&] { return owners_of(context, hosts) == Words{""}; }, in_time));
  CHECK_FALSE(has_ended(host));
  HostOwnerProgram next(hosts);
  REQUIRE(
      run_cli({"controller", "own", "--hosts", host.address(), "--to", host.address()}).status ==
      ExitStatus::exited(0));
  CHECK(owners_of(context, hosts) == Words{next.id().to_string()});
  // A launcher that takes them gets them from it: they do not end with that controller any more.
  {
    auto mesh = must(HostMesh::take(context, ref_of(hosts)));
    CHECK(owners_of(context, hosts) == Words{""});
    CHECK(next.end() == ExitStatus::exited(0));
    check_lives_for(host, 2s);
  }
  // They end with the launcher's mesh.
  CHECK(wait_until([&] { return has_ended(host); }, in_time));
}

TEST_CASE(
    "hosts: those that a launcher has started on its machine outlive it, once they are handed "
    "over; those that are not its own it cannot hand over") {
  auto context = must(Context::create());
  Words hosts;
  std::vector<pid_t> agents;
  std::optional<HostOwnerProgram> controller;
  {
    auto mesh = must(HostMesh::process(context, extent("host=2"), of_this_build()));
    for (const auto& host : mesh.hosts()) hosts.push_back(host.to_string());
    for (const auto& report : must(mesh.states())) agents.push_back(static_cast<pid_t>(report.pid));
    controller.emplace(hosts);
    auto attached = must(HostMesh::attach(context, ref_of(hosts)));
    const auto refused = attached.handover(controller->id());
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code() == ErrorCode::refused);
    CHECK(refused.error().detail().find("take() them") != std::string::npos);
    const auto given = mesh.handover(controller->id());
    INFO((given ? std::string() : given.error().to_string()));
    REQUIRE(given.has_value());
  }
  // Without the handover they end within 2 s.
  CHECK_FALSE(wait_until([&] { return std::any_of(agents.begin(), agents.end(), is_gone); }, 4s));
  CHECK(controller->end() == ExitStatus::exited(0));
  CHECK(wait_until([&] { return std::all_of(agents.begin(), agents.end(), is_gone); }, in_time));
}
