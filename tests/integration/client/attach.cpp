// Launchers on hosts that stand: attaching, calls, leases, what is left behind, and the examples.
#include <csignal>
#include <optional>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

HostAddr address(const StandingHost& host) {
  return must(HostAddr::parse(host.address()));
}

}  // namespace

TEST_CASE("client: spec 6.1: attaching fails closed and names each host that does not answer") {
  const StandingHost host;
  auto context = must(Context::create());
  const auto nobody = must(HostAddr::parse("unix:/nobody/here"));
  const auto other = must(HostAddr::parse("unix:@nobody.there"));
  for (const auto& hosts : std::vector<std::vector<HostAddr>>{{address(host), nobody, other},
                                                              {nobody, address(host), other}}) {
    const auto mesh = HostMesh::attach(context, "hosts", hosts, {.deadline = 2s});
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().code() == ErrorCode::host_unreachable);
    CHECK(mesh.error().detail().find("unix:/nobody/here") != std::string::npos);
    CHECK(mesh.error().detail().find("unix:@nobody.there") != std::string::npos);
    CHECK(mesh.error().detail().find(host.address()) == std::string::npos);
  }
  CHECK(HostMesh::attach(context, "hosts", {}).error().code() == ErrorCode::configuration_error);
  CHECK(HostMesh::attach(context, "hosts", {must(HostAddr::parse("tcp:*:0"))}, {.deadline = 1s})
            .error()
            .code() == ErrorCode::configuration_error);
}

TEST_CASE("client: tcp hosts that are not there are named at once, with the system's words") {
  StandingHost host({"--insecure", "--bind", "tcp:127.0.0.1:0", "--advertise", "tcp:127.0.0.1:0"});
  auto context = must(Context::create());
  const auto here = address(host);
  REQUIRE(here.transport() == Transport::tcp);
  const auto refused = must(HostAddr::tcp("127.0.0.1", 1));
  const auto nameless = must(HostAddr::tcp("no-such-host.invalid", 7420));
  const auto mesh =
      HostMesh::attach(context, "hosts", {refused, nameless, here}, {.deadline = 10s});
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().detail().find(
            "host 0 (tcp:127.0.0.1:1): nothing listens there (connect: Connection refused)") !=
        std::string::npos);
  CHECK(mesh.error().detail().find("host 1 (tcp:no-such-host.invalid:7420): cannot find "
                                   "no-such-host.invalid: ") != std::string::npos);
  CHECK(mesh.error().detail().find("host 2") == std::string::npos);
  auto hosts = must(HostMesh::attach(context, "hosts", {here}));
  auto run = must(hosts.spawn("m", extent("gpu=2"), shell("exit 0")));
  CHECK(must(run.wait(in_time)).exit_code() == 0);
}

TEST_CASE("client: for looking, some hosts are enough") {
  const StandingHost host;
  auto context = must(Context::create());
  const auto nobody = must(HostAddr::parse("unix:/nobody/here"));
  const auto hosts = must(HostMesh::attach(context, "hosts", {nobody, address(host)},
                                           {.deadline = 2s, .require_all = false}));
  const auto states = must(hosts.states(2s));
  REQUIRE(states.size() == 2);
  CHECK(states[0].code != ErrorCode::none);
  CHECK(states[1].code == ErrorCode::none);
  const auto listing = must(hosts.meshes(2s));
  REQUIRE(listing.unreachable.size() == 1);
  CHECK(listing.unreachable[0].host == nobody);
}

TEST_CASE("client: spec 6.1: a host that calls itself otherwise is refused") {
  const StandingHost host;
  const TempDir dir;
  const auto alias = dir / "alias";
  std::filesystem::create_symlink(must(HostAddr::parse(host.address())).path(), alias);
  auto context = must(Context::create());
  const auto mesh =
      HostMesh::attach(context, "hosts", {must(HostAddr::unix_socket(alias))}, {.deadline = 5s});
  REQUIRE_FALSE(mesh.has_value());
  INFO(mesh.error().to_string());
  CHECK(mesh.error().code() == ErrorCode::identity_mismatch);
  CHECK(mesh.error().detail().find(host.address()) != std::string::npos);
}

TEST_CASE("client: two launchers share hosts; each one's procs end with it, the hosts stay") {
  const StandingHost first;
  const StandingHost second;
  const auto mine = own_sleep();
  const auto theirs = own_sleep();
  auto other_context = must(Context::create());
  auto other_hosts =
      must(HostMesh::attach(other_context, "theirs", {address(first), address(second)}));
  auto other = must(other_hosts.spawn("theirs", extent("gpu=1"), shell("exec " + theirs)));
  {
    auto context = must(Context::create());
    auto hosts = must(HostMesh::attach(context, "mine", {address(first), address(second)}));
    auto mesh = must(hosts.spawn("mine", extent("gpu=2"), shell("exec " + mine)));
    CHECK(must(hosts.meshes()).meshes.size() == 2);
    REQUIRE(wait_until([&] { return processes_with(mine).size() == 4; }, in_time));
  }
  CHECK(wait_until([&] { return processes_with(mine).empty(); }, in_time));
  CHECK(processes_with(theirs).size() == 2);
  for (const auto& rank : must(other.status())) CHECK(rank.state == ProcState::ready);
  CHECK(must(other_hosts.stop_mesh(other.ref().mesh().to_string(), {.reason = "by name"})).size() ==
        2);
  CHECK(must(other.wait(in_time)).is_ended());
  CHECK(other_hosts.stop_mesh("nothing-13Se1Maqzryj").error().code() == ErrorCode::not_exist);
  for (const auto& host : must(other_hosts.states())) CHECK(host.code == ErrorCode::none);
}

TEST_CASE("client: a question that nobody had, as its host was started again, is asked once more") {
  const StandingHost stays({"--bind", "tcp:127.0.0.1:0", "--insecure"});
  std::optional<StandingHost> goes(Words{"--bind", "tcp:127.0.0.1:0", "--insecure"});
  const Words again{"--bind", goes->address(), "--insecure"};
  auto context = must(Context::create());
  const auto hosts = must(HostMesh::attach(context, "hosts", {address(stays), address(*goes)}));
  for (int round = 0; round < 3; ++round) {
    for (const pid_t pid : goes->roles().all()) ::kill(pid, SIGKILL);
    goes.reset();
    goes.emplace(again);
    const auto listing = must(hosts.meshes(in_time));
    for (const auto& host : listing.unreachable) CHECK(host.problem == "");
  }
}

TEST_CASE("client: a launcher whose host ends in order goes on from another one at once") {
  std::optional<StandingHost> goes(std::in_place);
  const StandingHost stays;
  // It looks at its connection so seldom that only the broker's own word is in time.
  auto context = must(Context::create({.settings = {{"supervision.probe", "5s"}}}));
  const auto hosts = must(HostMesh::attach(context, "hosts", {address(*goes), address(stays)}));
  goes.reset();
  const auto states = must(hosts.states(3s));
  CHECK(states[0].code != ErrorCode::none);
  CHECK(states[1].code == ErrorCode::none);
}

TEST_CASE("client: an order to stop that is lost with the broker of its launcher is given again") {
  const StandingHost host;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address(host)}));
  auto mesh = must(hosts.spawn("left", extent("gpu=2"), shell("exec sleep 1000"),
                               {.on_failure = [](const RankReport&) {}}));
  // It takes the order, and passes nothing on.
  const auto broker = host.roles().broker;
  REQUIRE(::kill(broker, SIGSTOP) == 0);
  mesh.request_stop({.reason = "enough"});
  // This question is sent behind the order, so the order has been sent, too.
  (void)hosts.states(300ms);
  REQUIRE(::kill(broker, SIGKILL) == 0);
  const auto outcome = must(mesh.wait(in_time));
  for (const auto& rank : outcome.ranks) {
    INFO(rank.describe());
    CHECK(rank.step == StopStep::term);
    CHECK(rank.stop_reason == "enough");
  }
}

TEST_CASE("client: spec 5.4: a lease that is renewed does not lapse") {
  const StandingHost host;
  auto context = must(Context::create(quick({{"supervision.probe", "100ms"}})));
  auto hosts = must(HostMesh::attach(context, "hosts", {address(host)}));
  auto spec = shell("sleep 2.5");
  spec.lease = 600ms;
  auto mesh = must(hosts.spawn("leased", extent("gpu=1"), spec));
  const auto outcome = must(mesh.wait(in_time));
  INFO(outcome.ranks[0].describe());
  CHECK(outcome.exit_code() == 0);
  CHECK(outcome.ranks[0].step == StopStep::none);
}

TEST_CASE("client: mesh procs answer calls by address, and what cannot be delivered says why") {
  const StandingHost first;
  const StandingHost second;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address(first), address(second)}));
  auto mesh = must(hosts.spawn("echo", extent("gpu=2"),
                               {.kind = ProcKind::mesh, .command = {bin("echo_proc")}}));
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    CHECK(must(must(mesh.proc(rank)).call(context, 2, "")) ==
          "rank " + std::to_string(rank) + " of 4");
  const auto proc = must(mesh.at({{"gpu", 0}, {"host", 1}}));
  CHECK(must(proc.call(context, 1, "hello")) == "hello");
  const std::string large(900 * 1024, 'x');
  CHECK(must(proc.call(context, 1, large, in_time)) == large);
  const std::string larger(2 * 1024 * 1024, 'x');
  CHECK((must(proc.call(context, 1, larger, in_time)) == larger));
  CHECK(proc.call(context, 77, "x").error().code() == ErrorCode::no_such_port);
  CHECK(proc.call(context, 3, "nonsense").error().code() == ErrorCode::call_error);
  CHECK(must(proc.call(context, 3, "0 across")) == "across");
  CHECK(proc.send(context, 1, "nobody answers").has_value());
  CHECK(mesh.at({{"host", 1}}).error().code() == ErrorCode::configuration_error);
  CHECK(mesh.at({{"host", 1}, {"gpu", 9}}).error().code() == ErrorCode::out_of_range);
  CHECK(mesh.at({{"host", 1}, {"gpu", 1}, {"x", 0}}).error().code() ==
        ErrorCode::configuration_error);
  CHECK(must(mesh.stop()).is_ended());
  const auto late = proc.call(context, 1, "anyone?", in_time);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().code() == ErrorCode::no_such_proc);
  // How it has ended is known here.
  CHECK(late.error().detail().find("has left: rank 2 (host=1,gpu=0") != std::string::npos);
  CAPTURE(late.error().detail());
  CHECK(late.error().detail().find("exit 0") != std::string::npos);
  const auto all = must(context.call(mesh.ref(), 1, "anyone?", in_time));
  CHECK(all[3].error().detail().find("rank 3 (host=1,gpu=1") != std::string::npos);
}

TEST_CASE("client: a Context without hosts has no way to anybody") {
  auto context = must(Context::create());
  const auto answer = context.call(must(ProcId::parse("unix:/x,m_0-11111111111b")), 1, "x", 1s);
  CHECK(answer.error().code() == ErrorCode::unroutable);
  CHECK(Context::create(quick({{"leese", "1s"}})).error().code() == ErrorCode::configuration_error);
  CHECK(must(context.setting("terminate.grace")) == "10s");
  CHECK(context.setting("nothing").error().code() == ErrorCode::configuration_error);
}

TEST_CASE("client: shutting attached hosts down frees their addresses") {
  StandingHost first;
  StandingHost second;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "hosts", {address(first), address(second)}));
  const auto sleep = own_sleep();
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), shell("exec " + sleep)));
  const auto summary = must(hosts.shutdown(in_time));
  CHECK(summary.hosts == 2);
  CHECK(summary.attempted == 4);
  CHECK(summary.ok == 4);
  CHECK(processes_with(sleep).empty());
  CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(second.process().wait_exit(in_time) == ExitStatus::exited(0));
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 0);
}

TEST_CASE("examples: a launcher attaches to two hosts, calls a proc, hears a kill, and stops") {
  const StandingHost first;
  const StandingHost second;
  const auto finished =
      run({bin("launcher"), first.address(), second.address(), bin("echo_proc")}, in_time);
  INFO(finished.out, finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out.find(" answers hello\n") != std::string::npos);
  CHECK(finished.out.find("heard: rank 3 (host=1,gpu=1 on " + second.address() +
                          "): killed by SIGKILL") != std::string::npos);
  CHECK(lines_of(finished.out).size() == 6);
  CHECK(run({bin("launcher")}, in_time).status == ExitStatus::exited(2));
}

TEST_CASE("client: a proc that spawns itself before it calls bootstrap() is refused") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  ::setenv("MESHBUS_BOOTSTRAP", "fd:3", 1);
  const auto mesh = hosts.spawn("self", extent("gpu=1"), {.kind = ProcKind::mesh});
  ::unsetenv("MESHBUS_BOOTSTRAP");
  REQUIRE_FALSE(mesh.has_value());
  CHECK(mesh.error().code() == ErrorCode::refused);
  CHECK(mesh.error().detail().find("main() calls bootstrap() before") != std::string::npos);
  must(hosts.shutdown(in_time));
}

TEST_CASE("examples: one executable is launcher and proc") {
  const auto finished = run({bin("single_binary")}, in_time);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(lines_of(finished.out) ==
        Words{"rank 0 got \"good morning\"", "rank 1 got \"good morning\"",
              "rank 2 got \"good morning\"", "rank 3 got \"good morning\""});
}
