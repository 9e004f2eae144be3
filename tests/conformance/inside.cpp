// Spec 6.1: procs of one host mesh become the hosts of another one (HostMesh::inside).
#include <csignal>
#include <future>
#include <mutex>

#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

InsideOptions inside_options() {
  return {.host = of_this_build()};
}

/// The procs that inner hosts are, by the report of the outer hosts.
MeshReport outer_procs(const HostMesh& outer) {
  const auto listing = must(outer.meshes());
  REQUIRE(listing.meshes.size() == 1);
  REQUIRE(says(listing.meshes[0].name, "inner-"));
  return listing.meshes[0];
}

bool descends(pid_t pid, pid_t ancestor) {
  const auto all = descendants_of(ancestor);
  return std::any_of(all.begin(), all.end(),
                     [pid](const ProcessInfo& process) { return process.pid == pid; });
}

std::vector<pid_t> pids_of(const ProcMesh& mesh) {
  std::vector<pid_t> pids;
  for (const auto& rank : must(mesh.status())) pids.push_back(static_cast<pid_t>(rank.pid));
  return pids;
}

/// Two hosts, a host inside of a proc on each, and a rank on each of these. A lease would take a
/// minute: nothing here waits for one.
struct Nested {
  Context context = must(Context::create());
  HostMesh outer = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  HostMesh inner = must(HostMesh::inside(context, outer, {}, inside_options()));
  MeshReport procs = outer_procs(outer);
  Heard heard;
  ProcMesh mesh = must(inner.spawn("ranks", {}, shell("exec " + own_sleep()), heard.handlers()));
  std::vector<pid_t> pids = pids_of(mesh);
};

}  // namespace

TEST_CASE(
    "spec 6.1: one call makes a host of each of so many procs; all that runs there descends from "
    "its proc, and the outer hosts stay when they end") {
  auto context = must(Context::create());
  auto outer = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  std::mutex mutex;
  std::vector<std::string> events;
  auto options = inside_options();
  options.settings.cpus = {0};
  options.on_event = [&](const AllocationEvent& event) {
    const std::lock_guard lock(mutex);
    events.push_back(std::to_string(event.rank) + ":" +
                     std::to_string(static_cast<int>(event.kind)));
  };
  auto inner = must(HostMesh::inside(context, outer, extent("cell=2"), options));
  CHECK(inner.ref().region().extent() == extent("host=2,cell=2"));
  REQUIRE(inner.hosts().size() == 4);
  const auto procs = outer_procs(outer);
  REQUIRE(procs.ranks.size() == 4);
  const auto states = must(inner.states());
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    CHECK(states[rank].code == ErrorCode::none);
    CHECK(
        descends(static_cast<pid_t>(states[rank].pid), static_cast<pid_t>(procs.ranks[rank].pid)));
  }
  Heard heard;
  auto mesh = must(inner.spawn(
      "ranks", extent("gpu=1"),
      {.command = {"sh", "-c", "echo $RANK $(grep -h ^Cpus_allowed_list /proc/self/status)"},
       .output = OutputMode::stream},
      heard.handlers()));
  must(mesh.wait(in_time));
  // What bounds the proc bounds all that is in it.
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    CHECK(heard.output(rank) == std::to_string(rank) + " Cpus_allowed_list: 0\n");
  auto served = must(inner.spawn("served", {}, self({"serve"})));
  CHECK(texts(must(context.call(served.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
        std::vector<std::string>{"0", "1", "2", "3"});
  must(served.stop());
  CHECK(must(inner.shutdown(in_time)).hosts == 4);
  for (const auto& rank : procs.ranks) CHECK(is_gone(static_cast<pid_t>(rank.pid)));
  REQUIRE(wait_until(
      [&] {
        const std::lock_guard lock(mutex);
        return events.size() == 12;
      },
      in_time));
  for (const auto* const end : {"0:2", "1:2", "2:2", "3:2"})
    CHECK(std::count(events.begin(), events.end(), end) == 1);
  // The outer hosts are as they were.
  auto again = must(outer.spawn("again", {}, shell("exit 0")));
  must(again.wait(in_time));
  CHECK(must(outer.shutdown(in_time)).hosts == 2);
}

TEST_CASE(
    "spec 6.1: the end of a proc is the proof of the end of its host: the ranks there are lost at "
    "once, by name, and nothing of them is left") {
  Nested nested;
  const auto victim = static_cast<pid_t>(nested.procs.ranks[1].pid);
  const auto inside = descendants_of(victim);
  REQUIRE(inside.size() >= 4);
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(::kill(victim, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return nested.heard.failures().size() == 1; }, in_time));
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  MESSAGE("known after " << took.count() << " ms");
  const auto lost = nested.heard.failures()[0];
  INFO(lost.reason);
  CHECK(lost.rank == 1);
  CHECK(lost.cause == Cause::host_lost);
  // Two tell it, and the first one counts: the outer host, that its proc was killed; or the inner
  // one, that its warden has died.
  const auto rank = "rank 1 of " + nested.procs.name;
  const bool by_outer = says(lost.reason, "its proc (" + rank) && says(lost.reason, "SIGKILL");
  const bool by_inner =
      says(lost.reason, "its warden, the process meshbus host (in " + rank + "), has died");
  CHECK(by_outer != by_inner);
  CHECK(wait_until(
      [&] {
        return std::all_of(inside.begin(), inside.end(),
                           [](const ProcessInfo& process) { return is_gone(process.pid); });
      },
      in_time));
  CHECK_FALSE(is_gone(nested.pids[0]));
  CHECK(must(nested.inner.states())[1].has_ended);
  must(nested.mesh.stop());
  CHECK(must(nested.inner.shutdown(in_time)).hosts == 2);
  CHECK(must(nested.outer.shutdown(in_time)).hosts == 2);
  // All of it was killed, so nobody has removed its run directory: the next host does.
  auto next = must(HostMesh::local(nested.context, of_this_build()));
  CHECK(must(next.shutdown(in_time)).hosts == 1);
}

TEST_CASE("spec 6.1: inner hosts end with the outer ones, in order or not, and nothing is left") {
  Nested nested;
  const auto all = descendants_of(static_cast<pid_t>(nested.procs.ranks[1].pid));
  SUBCASE("an outer host is killed") {
    const auto agent = find_process(static_cast<pid_t>(must(nested.outer.states())[1].pid));
    REQUIRE(agent.has_value());
    REQUIRE(::kill(agent->parent, SIGKILL) == 0);
    REQUIRE(wait_until([&] { return nested.heard.failures().size() == 1; }, in_time));
    CHECK(nested.heard.failures()[0].rank == 1);
    CHECK_FALSE(is_gone(nested.pids[0]));
  }
  SUBCASE("the outer hosts are shut down") {
    CHECK(must(nested.outer.shutdown(in_time)).hosts == 2);
    CHECK(wait_until([&] { return nested.heard.ends() == 1; }, in_time));
  }
  SUBCASE("the inner mesh is let go") {
    const auto gone = std::move(nested.inner);
  }
  CHECK(wait_until(
      [&] {
        return std::all_of(all.begin(), all.end(),
                           [](const ProcessInfo& process) { return is_gone(process.pid); });
      },
      in_time));
}

TEST_CASE("spec 6.1: hosts inside of procs start all or none, and the error says which and why") {
  const TempDir dir;
  auto context = must(Context::create());
  auto outer = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  auto options = inside_options();
  const std::string once = "if mkdir " + (dir / "first") + " 2>/dev/null; then ";
  SUBCASE("one cannot start") {
    options.wrapper = {"sh", "-c", once + "echo dying words >&2; exit 7; fi; exec \"$@\"", "sh"};
    const auto made = HostMesh::inside(context, outer, {}, options);
    REQUIRE_FALSE(made.has_value());
    INFO(made.error().to_string());
    CHECK(says(made.error().detail(), "dying words"));
    CHECK(says(made.error().detail(), "exit 7"));
  }
  SUBCASE("one is never ready") {
    options.wrapper = {"sh", "-c", once + "exec sleep 100; fi; exec \"$@\"", "sh"};
    options.host.ready_limit = 3s;
    const auto made = HostMesh::inside(context, outer, {}, options);
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code() == ErrorCode::timeout);
    CHECK(says(made.error().detail(), "not ready within 3s"));
  }
  SUBCASE("there is no such program") {
    options.host.program = "/no/where/meshbus";
    const auto made = HostMesh::inside(context, outer, {}, options);
    REQUIRE_FALSE(made.has_value());
    CHECK(says(made.error().detail(), "/no/where/meshbus"));
  }
  // Nothing of them is left, and the outer hosts are as they were.
  for (const auto& mesh : must(outer.meshes()).meshes) {
    for (const auto& rank : mesh.ranks) CHECK(rank.is_terminal());
  }
  auto fine = must(HostMesh::inside(context, outer, {}, inside_options()));
  CHECK(must(fine.shutdown(in_time)).hosts == 2);
  CHECK(must(outer.shutdown(in_time)).hosts == 2);
}

TEST_CASE(
    "spec 6.1: inside of hosts that are reached over tcp, inner hosts are too, with keys of their "
    "own") {
  auto context = must(Context::create());
  const RemoteHost machine{
      "a", {"env", "SSH_CONNECTION=127.0.0.2 1 127.0.0.2 2", bin("meshbus"), "host", "--remote"}};
  // The address comes from the launcher: the host's own variables lead elsewhere.
  auto outer = must(HostMesh::remote(context, {machine}, of_this_build()));
  auto options = inside_options();
  options.environment = {{"SSH_CONNECTION", "127.0.0.3 1 127.0.0.3 2"}};
  auto inner = must(HostMesh::inside(context, outer, extent("cell=2"), options));
  REQUIRE(inner.hosts().size() == 2);
  for (const auto& host : inner.hosts()) {
    CHECK(host.transport() == Transport::tcp);
    CHECK(host.host() == outer.hosts()[0].host());
  }
  auto mesh = must(inner.spawn("ranks", extent("gpu=1"), self({"serve"})));
  CHECK(texts(must(context.call(mesh.ref(), Port::environ_of, "NODE_RANK", in_time))) ==
        std::vector<std::string>{"0", "1"});
  must(mesh.stop());
  CHECK(must(inner.shutdown(in_time)).hosts == 2);
  CHECK(must(outer.shutdown(in_time)).hosts == 1);
}

TEST_CASE("spec 6.1: no inner host is made where there is no outer one, and none by a handler") {
  auto context = must(Context::create());
  auto nobody = must(HostMesh::process(context, extent("host=0"), of_this_build()));
  auto none = must(HostMesh::inside(context, nobody, extent("cell=2"), inside_options()));
  CHECK(none.hosts().empty());
  auto outer = must(HostMesh::local(context, of_this_build()));
  CHECK(HostMesh::inside(context, outer, extent("host=2"), inside_options()).error().code() ==
        ErrorCode::configuration_error);
  std::promise<ErrorCode> code;
  auto mesh = must(outer.spawn("once", {}, shell("exit 0"), {.on_end = [&](const MeshOutcome&) {
                                 const auto made =
                                     HostMesh::inside(context, outer, {}, inside_options());
                                 code.set_value(made ? ErrorCode::none : made.error().code());
                               }}));
  auto said = code.get_future();
  REQUIRE(said.wait_for(in_time) == std::future_status::ready);
  CHECK(said.get() == ErrorCode::would_block);
}
