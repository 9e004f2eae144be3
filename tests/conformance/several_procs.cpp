// Spec 4.4: several procs of one process. Each is a proc of its own; what they share is what
// belongs to a process.
#include <algorithm>
#include <csignal>
#include <set>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// A mesh of this program on processes of several procs, and what its launcher hears.
struct Mesh {
  Mesh(std::string_view hosts_extent, std::string_view per_host, std::uint32_t procs_per_process,
       ProcSpec spec = self({"several"}))
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent(hosts_extent), of_this_build()))),
        procs(must(hosts.spawn("m", extent(per_host), with(std::move(spec), procs_per_process),
                               heard.handlers()))) {}
  /// On a host that is there.
  Mesh(const HostAddr& host, std::string_view per_host, std::uint32_t procs_per_process)
      : context(must(Context::create())),
        hosts(must(HostMesh::attach(context, "standing", {host}))),
        procs(must(hosts.spawn("m", extent(per_host), with(self({"several"}), procs_per_process),
                               heard.handlers()))) {}

  static ProcSpec with(ProcSpec spec, std::uint32_t procs_per_process) {
    spec.procs_per_process = procs_per_process;
    spec.output = OutputMode::stream;
    return spec;
  }
  Result<std::string> ask(std::uint64_t rank, Port port, std::string_view body = "") {
    return must(procs.proc(rank)).call(context, port, body, in_time);
  }
  /// Its end may be sooner than the answer.
  void order(std::uint64_t rank, std::string_view what) { (void)ask(rank, Port::leave, what); }
  std::vector<RankReport> status() { return must(procs.status(in_time)); }
  RankReport end_of(std::uint64_t rank) {
    REQUIRE(wait_until(
        [&] { return status()[rank].is_terminal() && !status()[rank].reason.empty(); }, in_time));
    return status()[rank];
  }
  std::vector<pid_t> pids() {
    std::vector<pid_t> found;
    for (const auto& rank : status()) found.push_back(static_cast<pid_t>(rank.pid));
    return found;
  }
  /// Ends the rest, in order.
  void end() {
    must(procs.stop({.grace = 5s}));
    must(hosts.shutdown(in_time));
    CHECK(own_processes_with("meshbus_conformance_tests several").empty());
  }

  Heard heard;
  Context context;
  HostMesh hosts;
  ProcMesh procs;
};

std::size_t processes() {
  return own_processes_with("meshbus_conformance_tests several").size();
}

}  // namespace

TEST_CASE(
    "spec 4.4: several procs share a process, and each has its address, its place, its actors and "
    "its own end") {
  Mesh mesh("host=2", "gpu=5", 2);
  const auto pids = mesh.pids();
  REQUIRE(pids.size() == 10);
  // Two, two and one at each host.
  for (const std::size_t rank : {0U, 2U, 5U, 7U}) CHECK(pids[rank] == pids[rank + 1]);
  CHECK(std::set<pid_t>(pids.begin(), pids.end()).size() == 6);
  CHECK(processes() == 6);
  CHECK(texts(must(mesh.context.call(mesh.procs.ref(), Port::place, "", in_time)))[6] ==
        "m 6 at host=1/2,gpu=1/5 as host=1/2,gpu=1/5");
  // From one to the other inside of a process, and across.
  for (const std::uint64_t to : {1U, 6U}) {
    const auto id = must(mesh.procs.ref().proc_at(to)).to_string();
    CHECK(must(mesh.ask(0, Port::left, id + " " + std::to_string(Port::right))) ==
          "right of m " + std::to_string(to));
  }
  auto adders = must(mesh.procs.spawn_actors("adder", "sum", "40"));
  CHECK(texts(must(adders.call("add", "2", in_time))) == Words(10, "42"));
  const auto total = must(adders.accumulate("add", "0", "sum", {.deadline = in_time}));
  REQUIRE(total.value.has_value());
  CHECK(to_text(*total.value) == "420");
  for (const auto& rank : must(mesh.procs.stop({.reason = "seen enough"})).ranks) {
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.exit_code == 0);
    CHECK(rank.step == StopStep::asked);
  }
  CHECK(processes() == 0);
  CHECK(wait_until([&] { return mesh.heard.ends() == 1; }, in_time));
  CHECK(mesh.heard.failures().empty());
  must(mesh.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 4.4: one of several ends alone, is told at once, and what the process writes is then the "
    "next one's") {
  Mesh mesh("host=1", "gpu=3", 3);
  CHECK(must(mesh.ask(2, Port::say, "first\n")) == "");
  REQUIRE(wait_until([&] { return mesh.heard.output(0) == "first\n"; }, in_time));
  SUBCASE("by itself, with a code") {
    mesh.order(0, "259");  // 8 bits of it, as of a process
    const auto end = mesh.end_of(0);
    CHECK(end.exit_code == 3);
    CHECK(end.reason == "exit 3");
  }
  SUBCASE("by an exception, in its own words") {
    mesh.order(0, "throw");
    const auto end = mesh.end_of(0);
    CHECK(end.signal == SIGABRT);
    CHECK(end.stderr_tail == "main() ended with an exception: told to\n");
  }
  SUBCASE("because it is stopped") {
    must(mesh.procs.stop({.reason = "not this one", .ranks = {{0, 1}}}));
    const auto end = mesh.end_of(0);
    CHECK(end.state == ProcState::stopped);
    CHECK(end.exit_code == 0);
    CHECK(end.stop_reason == "not this one");
  }
  SUBCASE("because it is killed") {
    REQUIRE(mesh.procs.signal({{0, 1}}, SIGKILL).has_value());
    const auto end = mesh.end_of(0);
    CHECK(end.signal == SIGKILL);
    CHECK(end.reason == "killed by SIGKILL");
  }
  CHECK(must(mesh.ask(2, Port::say, "second\n")) == "");
  CHECK(wait_until([&] { return mesh.heard.output(1) == "second\n"; }, in_time));
  CHECK(must(mesh.ask(1, Port::echo, "still here")) == "still here");
  CHECK(processes() == 1);
  mesh.end();
  CHECK(mesh.heard.output(0) == "first\n");
  for (const auto& rank : mesh.heard.failures()) CHECK(rank.rank == 0);
}

TEST_CASE(
    "spec 4.4, 4.9: a process that ends takes its procs along, each told once; the others live") {
  Mesh mesh("host=1", "gpu=6", 3);
  const auto pid = mesh.pids()[4];
  const auto all_end = [&](auto&& as_expected) {
    for (const std::uint64_t rank : {3U, 4U, 5U}) {
      const auto end = mesh.end_of(rank);
      INFO(end.reason);
      CHECK(as_expected(end));
    }
    CHECK(wait_until([&] { return mesh.heard.failures().size() == 3; }, in_time));
    for (const std::uint64_t rank : {0U, 1U, 2U})
      CHECK(mesh.status()[rank].state == ProcState::ready);
  };
  SUBCASE("by SIGKILL") {
    REQUIRE(::kill(pid, SIGKILL) == 0);
    all_end([](const RankReport& end) {
      return end.signal == SIGKILL &&
             end.reason.starts_with("killed by SIGKILL, not sent by meshbus");
    });
  }
  SUBCASE("by SIGTERM from somebody else: as one proc would") {
    REQUIRE(::kill(pid, SIGTERM) == 0);
    all_end([](const RankReport& end) { return end.exit_code == 128 + SIGTERM; });
  }
  SUBCASE("by exit() in one of them") {
    mesh.order(4, "exit");
    all_end([](const RankReport& end) { return end.exit_code == 9; });
  }
  mesh.end();
}

TEST_CASE(
    "spec 4.4, 4.6: one of several that does not return is given up, and ends with its process; "
    "all that are killed are") {
  Mesh mesh("host=1", "gpu=2", 2);
  mesh.order(0, "stick");
  SUBCASE("alone") {
    // 5 s, and said so.
    const auto stop = mesh.procs.stop({.grace = 0ms, .ranks = {{0, 1}}});
    const auto end = mesh.end_of(0);
    CHECK(end.cause == Cause::unkillable);
    INFO(end.reason);
    CHECK(end.reason.find("shares process " + std::to_string(mesh.pids()[1])) != std::string::npos);
    CHECK(must(mesh.ask(1, Port::echo, "still here")) == "still here");
    CHECK(must(mesh.ask(1, Port::say, "still heard\n")) == "");
    CHECK(wait_until([&] { return mesh.heard.output(1) == "still heard\n"; }, in_time));
  }
  SUBCASE("with all others: that is the process") {
    const auto stop = must(mesh.procs.stop({.grace = 0ms}));
    for (const auto& rank : stop.ranks) CHECK(rank.state == ProcState::stopped);
  }
  must(mesh.procs.stop({.grace = 5s}));
  CHECK(
      wait_until([] { return processes() == 0; }, in_time));  // with the last one that does return
  must(mesh.hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 4.4: a process whose procs do not ask whether they are to stop ends all the same, with "
    "all of them") {
  Mesh mesh("host=1", "gpu=3", 3, self({"several", "deaf"}));
  const auto pid = mesh.pids()[0];
  SUBCASE("by SIGTERM") {
    REQUIRE(::kill(pid, SIGTERM) == 0);
  }
  SUBCASE("when it is stopped, long before its grace is over") {
    for (const auto& rank : must(mesh.procs.stop({.grace = 60s, .deadline = in_time})).ranks)
      CHECK(rank.step == StopStep::asked);
  }
  for (const std::uint64_t rank : {0U, 1U, 2U}) mesh.end_of(rank);
  CHECK(wait_until([] { return processes() == 0; }, in_time));
  mesh.end();
}

TEST_CASE(
    "spec 4.4, 8.9: one that begins anew goes back into its process; all together they share a new "
    "one") {
  auto spec = self({"several"});
  spec.restart = {.on = RestartPolicy::On::failure};
  SUBCASE("one") {
    Mesh mesh("host=1", "gpu=3", 3, spec);
    mesh.order(1, "3");
    REQUIRE(wait_until(
        [&] {
          return mesh.status()[1].state == ProcState::ready && mesh.status()[1].restarts == 1;
        },
        in_time));
    const auto pids = mesh.pids();
    CHECK(std::set<pid_t>(pids.begin(), pids.end()).size() == 1);
    CHECK(processes() == 1);
    CHECK(must(mesh.ask(1, Port::place)) == "m 1 at host=0/1,gpu=1/3");
    // Its streams are its own, and its end is.
    for (const std::uint64_t rank : {0U, 2U}) mesh.order(rank, "0");
    for (const std::uint64_t rank : {0U, 2U}) CHECK(mesh.end_of(rank).exit_code == 0);
    CHECK(must(mesh.ask(1, Port::say, "the last one\n")) == "");
    CHECK(wait_until([&] { return mesh.heard.output(1) == "the last one\n"; }, in_time));
    mesh.end();
  }
  SUBCASE("all") {
    Mesh mesh("host=1", "gpu=3", 3, spec);
    const auto pid = mesh.pids()[0];
    REQUIRE(::kill(pid, SIGKILL) == 0);
    REQUIRE(wait_until(
        [&] {
          return std::ranges::all_of(mesh.status(), [](const RankReport& rank) {
            return rank.state == ProcState::ready && rank.restarts == 1;
          });
        },
        in_time));
    const auto pids = mesh.pids();
    CHECK(std::ranges::find(pids, pid) == pids.end());
    mesh.end();
  }
}

TEST_CASE("spec 4.4, 18.2: procs that come later go into a living process as long as it has room") {
  Mesh mesh("host=1", "gpu=1", 3);
  const auto first = mesh.pids()[0];
  CHECK(must(mesh.procs.grow()).came == RankSet{{1, 2}});
  CHECK(must(mesh.procs.grow({.blocks = 2})).came == RankSet{{2, 4}});
  auto pids = mesh.pids();
  CHECK(pids[1] == first);
  CHECK(pids[2] == first);
  CHECK(pids[3] != first);
  CHECK(processes() == 2);
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    CHECK(must(mesh.ask(rank, Port::place)).starts_with("m " + std::to_string(rank) + " at "));
  SUBCASE("one that came later ends alone, and makes room") {
    must(mesh.procs.shrink({.blocks = 2}));
    CHECK(processes() == 1);
    must(mesh.procs.grow());
    CHECK(mesh.pids() == std::vector<pid_t>{first, first, first});
    CHECK(must(mesh.ask(2, Port::echo, "back")) == "back");
  }
  SUBCASE("the first one ends alone, and the others go on") {
    mesh.order(0, "4");
    CHECK(mesh.end_of(0).exit_code == 4);
    CHECK(must(mesh.ask(1, Port::say, "still heard\n")) == "");
    CHECK(wait_until([&] { return mesh.heard.output(1) == "still heard\n"; }, in_time));
  }
  SUBCASE("the process is killed with all of them") {
    REQUIRE(::kill(first, SIGKILL) == 0);
    for (const std::uint64_t rank : {0U, 1U, 2U}) CHECK(mesh.end_of(rank).signal == SIGKILL);
    CHECK(must(mesh.ask(3, Port::echo, "here")) == "here");
  }
  mesh.end();
}

TEST_CASE(
    "spec 4.4, 5.5: procs that came later into a process do not notice that their agent is "
    "replaced, and the next agent lets others join them") {
  StandingHost host;
  Mesh mesh(must(HostAddr::parse(host.address())), "gpu=1", 4);
  must(mesh.procs.grow());
  const auto before = mesh.pids();
  CHECK(before[0] == before[1]);
  REQUIRE(::kill(host.roles().agent, SIGKILL) == 0);
  CHECK(must(mesh.ask(1, Port::echo, "still here")) == "still here");
  REQUIRE(wait_until([&] { return mesh.procs.status(in_time).has_value(); }, in_time));
  CHECK(mesh.pids() == before);
  REQUIRE(wait_until([&] { return mesh.procs.grow().has_value(); }, in_time));
  CHECK(mesh.pids()[2] == before[0]);
  mesh.order(1, "3");
  CHECK(mesh.end_of(1).exit_code == 3);
  CHECK(must(mesh.ask(2, Port::echo, "still here")) == "still here");
  mesh.end();
}

TEST_CASE(
    "spec 4.4, 5.5: several procs of one process do not notice that their agent is replaced") {
  StandingHost host;
  Mesh mesh(must(HostAddr::parse(host.address())), "gpu=4", 2);
  const auto before = mesh.pids();
  REQUIRE(::kill(host.roles().agent, SIGKILL) == 0);
  CHECK(must(mesh.ask(1, Port::echo, "still here")) == "still here");
  REQUIRE(wait_until([&] { return mesh.procs.status(in_time).has_value(); }, in_time));
  CHECK(mesh.pids() == before);
  mesh.order(1, "3");
  CHECK(mesh.end_of(1).exit_code == 3);
  CHECK(must(mesh.ask(0, Port::echo, "still here")) == "still here");
  mesh.end();
}

TEST_CASE(
    "spec 4.4, 4.8: a program that ends before it says who it is ends so for each of its procs") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto fails = [&](ProcSpec spec, const std::string& words) {
    spec.procs_per_process = 2;
    const auto mesh = hosts.spawn("m", extent("gpu=4"), spec);
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().detail().find(words) != std::string::npos);
  };
  // The variable of a process is that of its lowest rank. The others are then stopped.
  fails(self({"early", "2"}), ": exit 7");
  // Before it could be told anything.
  for (int i = 0; i < 10; ++i) fails({.kind = ProcKind::mesh, .command = {"false"}}, ": exit 1");
  must(hosts.shutdown(in_time));
}

TEST_CASE("spec 4.4: what cannot share a process is refused in words") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  const auto refused = [&](ProcSpec spec, std::uint32_t procs_per_process,
                           const std::string& words) {
    spec.procs_per_process = procs_per_process;
    const auto mesh = hosts.spawn("m", extent("gpu=4"), spec);
    REQUIRE_FALSE(mesh.has_value());
    INFO(mesh.error().to_string());
    CHECK(mesh.error().to_string().find(words) != std::string::npos);
  };
  refused(shell("true"), 2, "only mesh procs can share a process");
  refused(self({"several"}), 0, "procs_per_process: 0; 1 to 60");
  refused(self({"several"}), 61, "procs_per_process: 61; 1 to 60");
  auto with_input = self({"several"});
  with_input.input_ranks = {{1, 2}};
  refused(with_input, 2, "rank 1 has no stdin of its own");
  refused({.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "join"}}, 2,
          "spawn it without procs_per_process");
  // A wrapper that closes what it does not know.
  auto wrapped = self({"several"});
  wrapped.command.insert(
      wrapped.command.begin(),
      {"python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"});
  refused(wrapped, 2, "wrapper that leaves descriptors open");
  CHECK(processes() == 0);
  must(hosts.shutdown(in_time));
}
