#include <doctest/doctest.h>

#include <csignal>

#include "agent/host/lifecycle/memory_kills.h"
#include "agent/host/lifecycle/shutdown_queue.h"
#include "agent/host/model/exit_report.h"
#include "agent/host/model/proc_table.h"
#include "agent/host/model/record_book.h"
#include "agent/host/updates/mesh_report.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/agent/host/fixture.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using namespace std::chrono_literals;
const Reactor::Time t0{100s};

TEST_CASE("record_book: the last so many, none older than so long") {
  RecordBook book({.kept = 2, .age = 10s});
  CHECK_FALSE(book.due().has_value());
  book.add(t0, "a", 0);
  book.add(t0 + 1s, "a", 1);
  CHECK_FALSE(book.forget(t0 + 1s).has_value());
  CHECK(book.due() == t0 + 10s);
  book.add(t0 + 2s, "b", 0);
  auto forgotten = book.forget(t0 + 2s);
  REQUIRE(forgotten.has_value());
  CHECK(forgotten->mesh == "a");
  CHECK(forgotten->rank == 0);
  CHECK_FALSE(book.forget(t0 + 2s).has_value());
  CHECK(book.forget(t0 + 11s).has_value());
  CHECK_FALSE(book.forget(t0 + 11s).has_value());
  CHECK(book.forget(t0 + 12s)->mesh == "b");
  CHECK(book.size() == 0);
}

TEST_CASE("shutdown_queue: so many at a time, each once, and none that ended by itself") {
  ShutdownQueue queue({1, 2, 3, 4, 5}, 2);
  CHECK(queue.next() == 1);
  CHECK(queue.next() == 2);
  CHECK_FALSE(queue.next().has_value());
  queue.on_ended(3, true);  // by itself
  CHECK_FALSE(queue.next().has_value());
  queue.on_ended(1, true);
  CHECK(queue.next() == 4);
  queue.on_ended(4, false);
  CHECK(queue.next() == 5);
  CHECK_FALSE(queue.next().has_value());
  CHECK_FALSE(queue.is_done());
  queue.on_ended(2, true);
  queue.on_ended(2, false);  // twice counts once
  queue.on_ended(5, true);
  queue.on_ended(99, false);
  CHECK(queue.is_done());
  CHECK(queue.attempted() == 5);
  CHECK(queue.failed() == 1);
}

TEST_CASE("shutdown_queue: somebody in a hurry may have more at a time, never fewer") {
  ShutdownQueue queue({1, 2, 3, 4}, 1);
  CHECK(queue.next() == 1);
  CHECK_FALSE(queue.next().has_value());
  queue.allow(3);
  queue.allow(2);
  CHECK(queue.next() == 2);
  CHECK(queue.next() == 3);
  CHECK_FALSE(queue.next().has_value());
}

TEST_CASE("shutdown_queue: nothing to do is done") {
  ShutdownQueue queue({}, 1);
  CHECK_FALSE(queue.next().has_value());
  CHECK(queue.is_done());
}

TEST_CASE("exit report: ends in words") {
  const auto exit = [](int code) { return ProcEnd{.code = code}; };
  const auto killed = [](int signal, bool core = false) {
    return ProcEnd{.signaled = true, .code = signal, .core_dumped = core};
  };
  constexpr std::uint64_t none = RLIM_INFINITY;
  struct Row {
    ProcEnd end;
    EndFacts facts;
    wire::Cause cause;
    std::string text;
  };
  using wire::Cause;
  for (const auto& [end, facts, cause, text] : std::vector<Row>{
           {exit(0), {}, Cause::exited, "exit 0"},
           {exit(255), {}, Cause::exited, "exit 255"},
           {killed(SIGSEGV), {}, Cause::signaled, "killed by SIGSEGV"},
           {killed(SIGABRT, true), {}, Cause::signaled, "killed by SIGABRT (core dumped)"},
           {killed(SIGRTMIN + 3), {}, Cause::signaled, "killed by SIGRTMIN+3"},
           {killed(SIGKILL),
            {},
            Cause::killed_from_outside,
            "killed by SIGKILL, not sent by meshbus, possibly out of memory"},
           {killed(SIGKILL),
            {.out_of_memory = OutOfMemory::no},
            Cause::killed_from_outside,
            "killed by SIGKILL, not sent by meshbus"},
           {killed(SIGKILL),
            {.out_of_memory = OutOfMemory::yes, .memory_cgroup = "/m"},
            Cause::out_of_memory,
            "killed by SIGKILL, out of memory: the kernel has killed for want of memory in /m"},
           {killed(SIGKILL),
            {.memory_limit = "limit of 64MiB of memory",
             .memory_kills = 1,
             .memory_limit_hit = true},
            Cause::out_of_memory,
            "killed by SIGKILL, out of memory: it has reached its limit of 64MiB of memory"},
           {killed(SIGKILL),
            {.memory_limit = "limit of 64MiB of memory", .memory_kills = 1},
            Cause::out_of_memory,
            "killed by SIGKILL, out of memory: not because of its limit of 64MiB of memory, but of "
            "one above it, or of the whole machine"},
           {killed(SIGKILL),
            {.sent_signals = 1U << SIGKILL, .memory_limit = "limit", .memory_kills = 1},
            Cause::signaled,
            "killed by SIGKILL"},
           {exit(3),
            {.memory_limit = "limit of 1GiB of memory",
             .memory_kills = 2,
             .memory_limit_hit = true},
            Cause::exited,
            "exit 3; the kernel has killed 2 of its processes for want of memory: it has reached "
            "its limit of 1GiB of memory"},
           {killed(SIGKILL),
            {.sent_signals = 1U << SIGKILL, .out_of_memory = OutOfMemory::yes},
            Cause::signaled,
            "killed by SIGKILL"},
           {killed(SIGXCPU),
            {.cpu_time = 1030ms, .cpu_soft = 1, .cpu_hard = 5},
            Cause::cpu_limit,
            "killed by SIGXCPU: it has used 1.03 s of CPU time, RLIMIT_CPU is 1 s"},
           {killed(SIGXCPU),
            {.cpu_time = 200ms, .cpu_soft = 1},
            Cause::signaled,
            "killed by SIGXCPU"},
           {killed(SIGXCPU),
            {.cpu_time = 2s, .cpu_soft = none},
            Cause::cpu_limit,
            "killed by SIGXCPU: its CPU time is over (an RLIMIT_CPU that it has set itself)"},
           {killed(SIGKILL),
            {.cpu_time = 1990ms, .cpu_soft = 1, .cpu_hard = 2, .out_of_memory = OutOfMemory::no},
            Cause::cpu_limit,
            "killed by SIGKILL: it has used 1.99 s of CPU time, the hard RLIMIT_CPU is 2 s"},
           {killed(SIGKILL),
            {.cpu_time = 1990ms,
             .cpu_hard = 2,
             .out_of_memory = OutOfMemory::yes,
             .memory_cgroup = "/m"},
            Cause::out_of_memory,
            "killed by SIGKILL, out of memory: the kernel has killed for want of memory in /m"},
           {killed(SIGKILL),
            {.cpu_time = 1s, .cpu_hard = 2},
            Cause::killed_from_outside,
            "killed by SIGKILL, not sent by meshbus, possibly out of memory"},
       }) {
    const auto words = describe_end(end, facts);
    CHECK(words.text == text);
    CHECK(words.cause == cause);
  }
  CHECK(signal_name(200) == "signal 200");
}

TEST_CASE("memory_kills: each kill that is counted is told once, and none from before its time") {
  const meshbus::test::TempDir dir;
  const auto file = dir.write("memory.events", "low 0\noom 3\noom_kill 3\n");
  MemoryKills kills(file);
  const auto later =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count() + 1;
  CHECK(kills.take(later) == OutOfMemory::no);
  dir.write("memory.events", "low 0\noom 5\noom_kill 5\n");
  CHECK(kills.take(1) == OutOfMemory::unknown);
  CHECK(kills.take(later) == OutOfMemory::yes);
  CHECK(kills.take(later) == OutOfMemory::yes);
  CHECK(kills.take(later) == OutOfMemory::no);
  CHECK(kills.cgroup() == dir.path().string());
  dir.write("memory.events", "nonsense");
  CHECK(kills.take(later) == OutOfMemory::unknown);
  MemoryKills blind(dir / "gone");
  CHECK(blind.take(later) == OutOfMemory::unknown);
  CHECK(blind.cgroup().empty());
}

TEST_CASE("exit report: why there is no process, in words") {
  using Stage = os::SpawnStage;
  const auto text = [](Stage stage, int error, const char* file) {
    return describe_spawn_failure({stage, error, file}, "prog", "unix:/h");
  };
  CHECK(text(Stage::lookup, ENOENT, "/no/such/file") ==
        "cannot execute '/no/such/file': No such file or directory (step: lookup) on host unix:/h");
  CHECK(text(Stage::lookup, ENOENT, "") ==
        "cannot execute 'prog': No such file or directory (step: lookup) on host unix:/h");
  CHECK(text(Stage::exec, EACCES, "/etc/passwd") ==
        "cannot execute '/etc/passwd': Permission denied (step: exec) on host unix:/h");
  CHECK(text(Stage::working_directory, ENOENT, "/gone") ==
        "cannot start 'prog': cannot enter directory '/gone': No such file or directory (step: "
        "working_directory) on host unix:/h");
  CHECK(text(Stage::clone, EAGAIN, "") ==
        "cannot start 'prog': Resource temporarily unavailable (step: clone) on host unix:/h");
  CHECK(text(Stage::cancelled, 0, "") ==
        "cannot start 'prog': not possible (step: cancelled) on host unix:/h");
}

std::shared_ptr<const Assignment> assignment() {
  return std::make_shared<const Assignment>(Assignment{*test::parse(test::good_request()), {}});
}

/// As ProcEnding does it when a proc has ended and its output is read.
void end(ProcTable& table, Proc& proc, Reactor::Time now, std::size_t tail = 0) {
  proc.launch.abandon();
  proc.state.on_failed(1);
  table.on_ended(proc);
  auto report = std::make_unique<wire::ExitReportT>();
  report->rank = proc.rank();
  report->reason = "exit 1";
  report->stderr_tail.assign(tail, 'x');
  table.publish(proc, std::move(report), now);
}

TEST_CASE("proc_table: finds by mesh, number and key; ended ones not by key") {
  ProcTable table({});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  Proc* three = table.add_proc(mesh, by, 3, 11, {});
  Proc* four = table.add_proc(mesh, by, 4, 12, {});
  REQUIRE(three != nullptr);
  REQUIRE(four != nullptr);
  CHECK(table.add_proc(mesh, by, 4, 13, {}) == nullptr);  // the same address
  CHECK(table.live() == 2);
  CHECK(table.find_mesh(test::mesh_name) == &mesh);
  CHECK(table.find_mesh("nobody") == nullptr);
  CHECK(table.find_id(three->id) == three);
  CHECK(table.find_key(four->address.key()) == four);
  CHECK(table.live_procs() == std::vector<Proc*>{three, four});
  end(table, *three, t0);
  CHECK(table.find_key(three->key) == nullptr);
  CHECK(table.find_id(three->id) == three);
  CHECK(table.live_procs() == std::vector<Proc*>{four});
}

TEST_CASE(
    "proc_table: a restarted rank takes the place of one that is over, and goes on where its "
    "streams ended") {
  ProcTable table({.kept = 10, .age = 1h});
  const auto by = assignment();
  auto again = by->spec;
  again.restarts = 1;
  const auto anew = std::make_shared<const Assignment>(Assignment{again, {}});
  Mesh& mesh = table.add_mesh(by->spec, t0);
  Proc* former = table.add_proc(mesh, by, 3, 11, {});
  CHECK(table.restart_proc(*former, anew, 12, {}) == nullptr);  // it lives
  former->output.out.at = {.read = 500, .file = 401};
  end(table, *former, t0);
  const auto id = former->id;
  const auto generation = former->state.to_wire().generation();
  Proc* next = table.restart_proc(*former, anew, 12, {});
  REQUIRE(next != nullptr);
  CHECK(table.find_id(id) == nullptr);
  CHECK(mesh.find(3) == next);
  CHECK(mesh.live == 1);
  CHECK(mesh.remembered == 0);
  CHECK(next->id != id);
  CHECK(next->state.state() == wire::ProcState::starting);
  CHECK(next->state.restarts() == 1);
  CHECK(next->state.to_wire().incarnation() == 12);
  CHECK(next->state.to_wire().generation() == generation + 1);
  CHECK(next->output.out.before.read == 500);
  CHECK(next->output.out.at.read == 500);
  CHECK(next->output.out.at.file == 401);
  CHECK(next->output.out.tail.begin() == 500);
  CHECK(next->output.err.at.read == 0);
  CHECK(table.find_key(next->key) == next);
  // The record of the former incarnation does not make the new one be forgotten.
  end(table, *next, t0 + 1min);
  table.forget_old(t0 + 1h, [](Mesh&) {});
  CHECK(next->exit.report() != nullptr);
}

TEST_CASE("proc_table: exit reports are forgotten one by one, a mesh only as a whole") {
  ProcTable table({.kept = 2, .age = 1h});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  std::vector<Proc*> procs;
  for (const std::uint64_t rank : {3U, 4U, 5U})
    procs.push_back(table.add_proc(mesh, by, rank, rank, {}));
  std::string forgotten;
  const auto forget = [&](Reactor::Time now) {
    table.forget_old(now, [&](Mesh& gone) { forgotten += gone.name; });
  };
  for (Proc* proc : procs) end(table, *proc, t0);
  forget(t0);
  CHECK(forgotten.empty());
  CHECK(procs[0]->exit.report() == nullptr);
  CHECK(procs[1]->exit.report() != nullptr);
  CHECK(make_mesh_state(mesh).ranks.size() == 3);
  CHECK(make_mesh_state(mesh).exit_reports.size() == 2);
  forget(t0 + 1h);
  CHECK(forgotten == test::mesh_name);
  CHECK(table.meshes().empty());
  CHECK(table.find_id(1) == nullptr);
}

TEST_CASE("proc_table: a mesh stays while a proc of it lives or has descendants") {
  ProcTable table({.kept = 0, .age = 1h});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  Proc* three = table.add_proc(mesh, by, 3, 11, {});
  Proc* four = table.add_proc(mesh, by, 4, 12, {});
  const auto forget = [&] { table.forget_old(t0, [](Mesh&) {}); };
  end(table, *three, t0);
  forget();
  CHECK(table.find_mesh(test::mesh_name) == &mesh);
  four->launch.on_born();  // it was there, and something of it still is
  CHECK(make_mesh_state(mesh).descendants.empty());
  four->exit.set_end({.code = 1});
  end(table, *four, t0);
  forget();
  CHECK(table.find_mesh(test::mesh_name) == &mesh);
  CHECK(make_mesh_state(mesh).descendants == std::vector<std::uint64_t>{4});
  four->exit.set_empty();
  CHECK(make_mesh_state(mesh).descendants.empty());
  forget();
  CHECK(table.find_mesh(test::mesh_name) == nullptr);
}

TEST_CASE("mesh_report: a state fits into one message, however long the tails are") {
  ProcTable table({});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  for (const std::uint64_t rank : {3U, 4U, 5U})
    end(table, *table.add_proc(mesh, by, rank, rank, {}), t0, 1000);
  auto state = make_mesh_state(mesh);
  CHECK(state.owner == "unix:/run/m/a,client-13Se1Maqzryj");
  CHECK(state.command == "echo hi");
  CHECK(state.host_index == 1);
  CHECK(state.exit_reports.size() == 3);
  CHECK(state.exit_reports[2]->stderr_tail.size() == 1000);
  state = make_mesh_state(mesh, 2500);
  CHECK(state.ranks.size() == 3);
  CHECK(state.exit_reports.size() == 3);
  CHECK(state.exit_reports[0]->stderr_tail.size() == 1000);
  CHECK(state.exit_reports[2]->stderr_tail.empty());
  CHECK(encode_control({}, std::move(state)).size() < 2500);
  state = make_mesh_state(mesh, 10);
  CHECK(state.ranks.size() == 3);
  CHECK(state.exit_reports.empty());
  CHECK(state.cut == 3);
  // The rest, which is sent later, has whole exit reports only.
  std::vector<const Proc*> later;
  state = make_mesh_state(mesh, 2500, &later);
  CHECK(state.cut == later.size());
  CHECK(state.exit_reports.size() + later.size() == 3);
  CHECK_FALSE(later.empty());
  for (const auto& exit_report : state.exit_reports) CHECK(exit_report->stderr_tail.size() == 1000);
}

TEST_CASE("mesh_report: a list has pages, and each mesh is on one of them") {
  ProcTable table({});
  std::vector<std::string> names;
  for (int i = 0; i < 7; ++i) {
    auto request = test::good_request();
    request.mesh = Name::make("m", static_cast<std::uint64_t>(i) + 1)->to_string();
    auto spec = test::parse(request);
    REQUIRE(spec.has_value());
    const auto assignment = std::make_shared<const Assignment>(Assignment{*spec, {}});
    Mesh& mesh = table.add_mesh(*spec, t0);
    names.push_back(mesh.name);
    // The fourth is too long for any page.
    for (std::uint64_t rank = 0; rank < (i == 3 ? 100U : 3U); ++rank)
      REQUIRE(table.add_proc(mesh, assignment, rank, 1, {}) != nullptr);
  }
  std::vector<std::string> listed;
  std::string after;
  int pages = 0;
  for (bool more = true; more; ++pages) {
    const auto page = make_mesh_list(table.meshes(), after, "h", 2000);
    CHECK(page.after == after);
    REQUIRE_FALSE(page.meshes.empty());
    for (const auto& mesh : page.meshes) {
      CHECK(mesh->ranks.size() == (mesh->mesh == names[3] ? 0 : 3));
      listed.push_back(mesh->mesh);
    }
    more = page.more;
    after = listed.back();
  }
  CHECK(listed == names);
  CHECK(pages >= 3);
  CHECK_FALSE(make_mesh_list(table.meshes(), {}, "h").more);
  CHECK(make_mesh_list(table.meshes(), after, "h").meshes.empty());
}

TEST_CASE("mesh_report: a list says why ranks have failed, of as many as there is room for") {
  ProcTable table({.kept = 1000, .age = 1h});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  for (std::uint64_t rank = 0; rank < 100; ++rank) {
    Proc* const proc = table.add_proc(mesh, by, rank, rank + 1, {});
    REQUIRE(proc != nullptr);
    if (rank != 1) end(table, *proc, t0, 500);
  }
  const auto list = make_mesh_list(table.meshes(), {}, "h");
  const auto& reports = list.meshes.at(0)->exit_reports;
  REQUIRE(reports.size() == 64);
  CHECK(reports[1]->rank == 2);
  CHECK(reports[1]->reason == "exit 1");
  CHECK(reports[1]->stderr_tail.empty());
  const auto small = make_mesh_list(table.meshes(), {}, "h", 16'000);
  CHECK(small.meshes.at(0)->ranks.size() == 100);
  CHECK(small.meshes.at(0)->exit_reports.size() < 64);
}

TEST_CASE(
    "mesh_report: who is in trouble is in every answer and in what is told anew, as long as it is "
    "ready") {
  ProcTable table({.kept = 10, .age = 1h});
  const auto by = assignment();
  Mesh& mesh = table.add_mesh(by->spec, t0);
  for (const std::uint64_t rank : {3U, 4U}) table.add_proc(mesh, by, rank, rank, {});
  Proc& frozen = *mesh.find(4);
  frozen.state = ProcState(wire::RankState(4, 3, 4, 1, 0, 42, 0, wire::ProcState::ready, 0, false,
                                           wire::StopStep::none, 0));
  frozen.trouble = wire::RankTrouble(4, 4, 1, 10'000, wire::Trouble::frozen, 'T');
  REQUIRE(make_mesh_state(mesh).troubles.size() == 1);
  CHECK(make_mesh_state(mesh).troubles[0].rank() == 4);
  CHECK(make_mesh_list(table.meshes(), {}, "h").meshes.at(0)->troubles.size() == 1);
  std::size_t told = 0;
  for (const auto& message : make_snapshot(mesh, "h")) told += message.troubles.size();
  CHECK(told == 1);
  const auto changes = make_changes("m", "h", {.troubles = {frozen.trouble}});
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].troubles.size() == 1);
  frozen.state = ProcState(wire::RankState(4, 4, 4, 1, 0, 42, 0, wire::ProcState::stopping, 0,
                                           false, wire::StopStep::term, 0));
  CHECK(make_mesh_state(mesh).troubles.empty());
}

TEST_CASE("mesh_report: changes are cut into messages, in order, states before exit reports") {
  HostUpdate update;
  for (std::uint64_t rank = 0; rank < 100; ++rank)
    update.ranks.push_back(ProcState(rank, 1).to_wire());
  auto& exit_reports = update.exit_reports;
  for (std::uint64_t rank = 0; rank < 10; ++rank) {
    exit_reports.push_back(std::make_unique<wire::ExitReportT>());
    exit_reports.back()->rank = rank;
    exit_reports.back()->reason = "exit 1";
    exit_reports.back()->stderr_tail.assign(rank == 5 ? 5000 : 10, 'x');
  }
  const auto messages = make_changes("m", "h", std::move(update), 1000);
  CHECK(messages.size() > 5);
  std::uint64_t next_rank = 0;
  std::uint64_t next_exit_report = 0;
  for (const auto& message : messages) {
    CHECK(message.mesh == "m");
    CHECK(message.host == "h");
    for (const auto& rank : message.ranks) {
      CHECK(next_exit_report == 0);
      CHECK(rank.rank() == next_rank++);
    }
    for (const auto& exit_report : message.exit_reports)
      CHECK(exit_report->rank == next_exit_report++);
    CHECK(encode_control({}, wire::StateChangedT(message)).size() < 6000);
  }
  CHECK(next_rank == 100);
  CHECK(next_exit_report == 10);
  CHECK(make_changes("m", "h", {}).empty());
}

}  // namespace
}  // namespace meshbus::host
