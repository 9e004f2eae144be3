// How procs end, and what the owner hears of it.
#include <doctest/doctest.h>

#include <sys/resource.h>

#include <csignal>

#include "agent/host/lifecycle/memory_kills.h"
#include "tests/integration/agent/harness.h"
#include "tests/integration/needs.h"
#include "tests/support/process_table.h"
#include "tests/support/sanitizer_scale.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/ranks_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;
using Step = wire::StopStep;

std::string tail_of(const TestLauncher::Rank& rank) {
  const auto& tail = rank.exit_report->stderr_tail;
  return {tail.begin(), tail.end()};
}

std::vector<State> states_of(const TestLauncher::Rank& rank) {
  std::vector<State> states;
  for (const auto& state : rank.states) states.push_back(state.state());
  return states;
}

/// Whether it was for want of memory is known where something counts that.
std::string killed_from_outside() {
  return std::string("killed by SIGKILL, not sent by meshbus") +
         (host::MemoryKills().cgroup().empty() ? ", possibly out of memory" : "");
}

TEST_CASE("agent: every kind of end is told exactly") {
  AgentHarness harness;
  struct Row {
    std::string script;
    State state;
    int exit_code;
    int signal;
    std::string reason;
    wire::Cause cause;
  };
  using wire::Cause;
  for (const auto& [script, state, exit_code, signal, reason, cause] : std::vector<Row>{
           {"exit 0", State::stopped, 0, 0, "exit 0", Cause::exited},
           {"exit 3", State::stopped, 3, 0, "exit 3", Cause::exited},
           {"exit 255", State::stopped, 255, 0, "exit 255", Cause::exited},
           {"kill -KILL $$", State::killed, 0, SIGKILL, killed_from_outside(),
            Cause::killed_from_outside},
           {"ulimit -c 0; kill -SEGV $$", State::killed, 0, SIGSEGV, "killed by SIGSEGV",
            Cause::signaled},
           {"kill -TERM $$", State::killed, 0, SIGTERM, "killed by SIGTERM", Cause::signaled},
       }) {
    INFO(script);
    const auto mesh = harness.run_shell(script);
    harness.wait_ended(mesh);
    const auto& rank = harness.rank(mesh);
    CHECK(rank.state() == state);
    CHECK(rank.states.back().exit_code() == exit_code);
    CHECK(rank.states.back().signal() == signal);
    CHECK_FALSE(rank.states.back().core_dumped());
    CHECK(rank.states.back().step() == Step::none);
    CHECK(rank.exit_report->reason == reason);
    CHECK(rank.exit_report->cause == cause);
    CHECK_FALSE(rank.exit_report->consequence);
    CHECK(rank.exit_report->code == wire::ErrorCode::none);
    CHECK(rank.exit_report->stopped_by.empty());
    CHECK(rank.exit_report->max_rss_bytes > 0);
    CHECK(states_of(rank) ==
          std::vector<State>{State::starting, State::running, State::ready, state});
    CHECK(rank.states.back().started_ns() > 1'700'000'000'000'000'000);
    CHECK(rank.states.back().ended_ns() >= rank.states.back().started_ns());
    CHECK(rank.states.back().pid() > 0);
    CHECK(rank.states.back().generation() == 4);
  }
  CHECK(harness.launcher->problems.empty());
}

TEST_CASE("agent: every signal that ends a process is told by its name") {
  struct Row {
    int signal;
    std::string name;
  };
  const std::vector<Row> rows = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},       {SIGQUIT, "SIGQUIT"},
      {SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"},
      {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},       {SIGUSR1, "SIGUSR1"},
      {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},     {SIGPIPE, "SIGPIPE"},
      {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"},     {SIGSTKFLT, "SIGSTKFLT"},
      {SIGXCPU, "SIGXCPU"}, {SIGXFSZ, "SIGXFSZ"},     {SIGVTALRM, "SIGVTALRM"},
      {SIGPROF, "SIGPROF"}, {SIGPOLL, "SIGPOLL"},     {SIGPWR, "SIGPWR"},
      {SIGSYS, "SIGSYS"},   {SIGRTMIN, "SIGRTMIN+0"}, {SIGRTMAX, "SIGRTMIN+30"}};
  std::string script = "ulimit -c 0; set --";
  for (const auto& row : rows) script += " " + std::to_string(row.signal);
  AgentHarness harness;
  // env: a shell does not give way to signals that it was started without.
  const auto mesh =
      harness.run_shell(script + "; shift $RANK; kill -$1 $$; sleep 10; exit 1", rows.size());
  harness.wait_ended(mesh, rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& rank = harness.rank(mesh, i);
    INFO(rows[i].name);
    CHECK(rank.state() == State::killed);
    CHECK(rank.states.back().signal() == rows[i].signal);
    CHECK(rank.exit_report->reason == "killed by " + rows[i].name);
    CHECK(rank.exit_report->cause == wire::Cause::signaled);
  }
}

TEST_CASE("agent: the limit of CPU time is told, soft and hard, with what was used") {
  AgentHarness harness;
  struct Row {
    std::string script;
    std::uint64_t soft, hard;
    int signal;
    std::string reason;
  };
  std::vector<std::pair<std::string, Row>> meshes;
  for (const auto& row :
       std::vector<Row>{{"while :; do :; done", 1, 5, SIGXCPU, "s of CPU time, RLIMIT_CPU is 1 s"},
                        {"trap '' XCPU; while :; do :; done", 1, 2, SIGKILL,
                         "s of CPU time, the hard RLIMIT_CPU is 2 s"}}) {
    auto request = harness.shell("ulimit -c 0; " + row.script);
    request.command->settings = std::make_unique<wire::ProcSettingsT>();
    request.command->settings->limits = {wire::ResourceLimit(row.soft, row.hard, RLIMIT_CPU)};
    meshes.emplace_back(harness.spawn(std::move(request)), row);
  }
  for (const auto& [mesh, row] : meshes) {
    harness.wait_ended(mesh);
    const auto& rank = harness.rank(mesh);
    INFO(rank.exit_report->reason);
    CHECK(rank.states.back().signal() == row.signal);
    CHECK(rank.exit_report->cause == wire::Cause::cpu_limit);
    CHECK(rank.exit_report->reason.ends_with(row.reason));
  }
}

TEST_CASE("agent: a core dump is told" * doctest::test_suite(need::core_file)) {
  AgentHarness harness;
  TempDir here;
  auto request = harness.shell("ulimit -c unlimited; kill -ABRT $$");
  request.command->directory = here.path();
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_ended(mesh);
  CHECK(harness.rank(mesh).state() == State::killed);
  CHECK(harness.rank(mesh).states.back().core_dumped());
  CHECK(harness.rank(mesh).exit_report->reason == "killed by SIGABRT (core dumped)");
}

TEST_CASE("agent: what cannot be executed is named, with file, step and host") {
  AgentHarness harness;
  TempDir dir;
  const auto bad_script = dir.write("script", "#!/no/such/interpreter\n", true);
  const std::string on_host = " on host " + harness.host().to_string();
  struct Row {
    std::vector<std::string> argv;
    std::string directory;
    int os_error;
    std::string reason;
  };
  for (const auto& [argv, directory, os_error, reason] : std::vector<Row>{
           {{"/no/such/file"},
            "",
            ENOENT,
            "cannot execute '/no/such/file': No such file or directory (step: exec)" + on_host},
           {{"no_such_program"},
            "",
            ENOENT,
            "cannot execute 'no_such_program': No such file or directory (step: lookup)" + on_host},
           {{"/etc/passwd"},
            "",
            EACCES,
            "cannot execute '/etc/passwd': Permission denied (step: exec)" + on_host},
           {{bad_script},
            "",
            ENOENT,
            "cannot execute '" + bad_script +
                ": interpreter /no/such/interpreter': No such file or directory (step: "
                "interpreter)" +
                on_host},
           {{dir.write("text", "no program\n", true)},
            "",
            ENOEXEC,
            "cannot execute '" + (dir / "text") + "': Exec format error (step: exec)" + on_host},
           {{"/bin/true"},
            "/no/such/directory",
            ENOENT,
            "cannot start '/bin/true': cannot enter directory '/no/such/directory': No such file "
            "or directory (step: working_directory)" +
                on_host},
       }) {
    auto request = harness.command(argv, 2);
    request.command->directory = directory;
    const auto mesh = harness.spawn(std::move(request));
    harness.wait_ended(mesh, 2);
    for (const std::uint64_t number : {0U, 1U}) {
      const auto& rank = harness.rank(mesh, number);
      CHECK(states_of(rank) == std::vector<State>{State::starting, State::failed});
      // Another code when it is not the file that cannot be executed.
      CHECK(rank.exit_report->code ==
            (directory.empty() ? wire::ErrorCode::exec_failed : wire::ErrorCode::io_error));
      CHECK(rank.exit_report->cause ==
            (directory.empty() ? wire::Cause::exec_failed : wire::Cause::spawn_failed));
      CHECK(rank.exit_report->os_error == os_error);
      CHECK(rank.exit_report->reason == reason);
      CHECK(rank.states.back().pid() == 0);
      CHECK(rank.states.back().ended_ns() > 0);
    }
  }
}

TEST_CASE("agent: the exit report has the last 100 lines of stderr, exact bytes") {
  AgentHarness harness;
  const auto mesh = harness.run_shell(
      "i=0; while [ $i -lt 250 ]; do i=$((i+1)); echo \"line $i\" >&2; done; echo not this; printf "
      "'no newline\\377' >&2; exit 1");
  harness.wait_ended(mesh);
  std::string expected;
  for (int i = 152; i <= 250; ++i) expected += "line " + std::to_string(i) + "\n";
  expected += "no newline\xff";
  CHECK(tail_of(harness.rank(mesh)) == expected);
}

TEST_CASE(
    "agent: what a descendant writes after the end of its proc is still taken, the descendant is "
    "not waited for") {
  AgentHarness harness;
  const auto begin = std::chrono::steady_clock::now();
  const auto mesh = harness.run_shell(
      "(while :; do echo flood; done) >&2 & sleep 300 & echo last words >&2; exit 2");
  harness.wait_ended(mesh);
  CHECK(std::chrono::steady_clock::now() - begin < 10s * slowness);
  CHECK(harness.rank(mesh).states.back().exit_code() == 2);
}

TEST_CASE("agent: a stop that was asked for is Stopped, with signal, step and requester") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300");
  harness.wait_state(mesh, State::ready);
  harness.stop(mesh, 10s);
  harness.wait_ended(mesh);
  const auto& rank = harness.rank(mesh);
  CHECK(states_of(rank) == std::vector<State>{State::starting, State::running, State::ready,
                                              State::stopping, State::stopped});
  CHECK(rank.states.back().signal() == SIGTERM);
  CHECK(rank.states.back().step() == Step::term);
  CHECK(rank.exit_report->reason == "killed by SIGTERM");
  CHECK(rank.exit_report->stopped_by == harness.launcher->id().to_string());
  CHECK(rank.exit_report->stop_reason == "the test is over");
  CHECK(rank.exit_report->cause == wire::Cause::stopped);
  CHECK_FALSE(rank.exit_report->consequence);
}

TEST_CASE("agent: a stop because of another rank is marked as its consequence, that rank is not") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("[ $RANK = 1 ] && exit 4; exec sleep 300", 3);
  harness.wait("the failure", [&] { return harness.rank(mesh, 1).exit_report.has_value(); });
  wire::StopProcsT stop;
  stop.mesh = mesh;
  stop.requester = "me";
  stop.reason = "rank 1 failed";
  stop.grace_ms = 5000;
  stop.because = 1;
  CHECK(harness.ask<wire::Ack>(stop).has_value());
  harness.wait_ended(mesh, 3);
  CHECK_FALSE(harness.rank(mesh, 1).exit_report->consequence);
  for (const std::uint64_t number : {0U, 2U}) {
    const auto& exit_report = *harness.rank(mesh, number).exit_report;
    CHECK(exit_report.cause == wire::Cause::stopped);
    CHECK(exit_report.consequence);
    REQUIRE(exit_report.because.has_value());
    CHECK(*exit_report.because == 1);
  }
}

TEST_CASE("agent: who ignores SIGTERM is killed after the grace; who stopped itself too") {
  AgentHarness harness;
  const auto deaf = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done");
  const auto asleep = harness.run_until_up("echo up; kill -STOP $$; exit 9");
  harness.wait("one to stop itself", [&] {
    const auto process = find_process(static_cast<pid_t>(harness.rank(asleep).states.back().pid()));
    return process && process->state == 'T';
  });
  const auto begin = std::chrono::steady_clock::now();
  harness.stop(deaf, 500ms);
  harness.stop(asleep, 500ms);
  harness.wait_ended(deaf);
  harness.wait_ended(asleep);
  CHECK(std::chrono::steady_clock::now() - begin >= 500ms);
  CHECK(harness.rank(deaf).state() == State::stopped);
  CHECK(harness.rank(deaf).states.back().signal() == SIGKILL);
  CHECK(harness.rank(deaf).states.back().step() == Step::kill);
  CHECK(harness.rank(deaf).exit_report->reason == "killed by SIGKILL");
  CHECK(harness.rank(deaf).exit_report->cause == wire::Cause::killed_after_grace);
  CHECK(harness.rank(asleep).states.back().signal() == SIGTERM);
  CHECK(harness.rank(asleep).states.back().step() == Step::term);
}

TEST_CASE("agent: no grace kills at once, and a second order hastens the first") {
  AgentHarness harness;
  const auto first = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done");
  const auto second = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done");
  harness.stop(first, 0ms);
  harness.stop(second, 60s);
  harness.wait_ended(first);
  CHECK(harness.rank(first).states.back().step() == Step::kill);
  CHECK(harness.rank(first).exit_report->cause == wire::Cause::stopped);
  CHECK(harness.rank(second).state() == State::stopping);
  harness.stop(second, 0ms);
  harness.wait_ended(second);
  CHECK(harness.rank(second).states.back().step() == Step::kill);
}

TEST_CASE("agent: a stop ends single ranks, and knows no unknown ones") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300", 4);
  harness.wait_state(mesh, State::ready, 4);
  harness.stop(mesh, 5s, {wire::RankInterval(1, 3), wire::RankInterval(7, 9)});
  harness.wait("two ends", [&] {
    return harness.rank(mesh, 1).exit_report && harness.rank(mesh, 2).exit_report;
  });
  CHECK(harness.rank(mesh, 0).state() == State::ready);
  CHECK(harness.rank(mesh, 3).state() == State::ready);
  harness.stop("nobody-13Se1Maqzryj", 5s);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh, 4);
  harness.stop(mesh, 0ms);
  CHECK(harness.rank(mesh, 1).states.back().step() == Step::term);
}

TEST_CASE("agent: a stop during the start ends everything, whatever had been reached") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "1"}}});
  for (const auto grace : {5000ms, 0ms}) {
    auto request = harness.shell("exec sleep 300", 30);
    const auto mesh = request.mesh;
    // Both in one turn: nothing has been started when the stop comes.
    wire::StopProcsT stop;
    stop.mesh = mesh;
    stop.requester = "me";
    stop.grace_ms = static_cast<std::uint32_t>(grace.count());
    auto& bus = harness.launcher->bus();
    int answers = 0;
    bus.request(Destination::to_agent(harness.host()), std::move(request), 30s,
                [&](const Result<ControlMessage>& answer) { answers += answer ? 1 : 0; });
    bus.request(Destination::to_agent(harness.host()), std::move(stop), 30s,
                [&](const Result<ControlMessage>& answer) { answers += answer ? 1 : 0; });
    harness.wait_ended(mesh, 30);
    harness.wait("answers", [&] { return answers == 2; });
    for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
      CHECK(rank.state() == State::stopped);
      CHECK(rank.states.back().step() != Step::none);
      CHECK(rank.exit_report->stopped_by == "me");
    }
    CHECK(harness.rank(mesh, 29).exit_report->reason == "stopped before it was started");
    CHECK(harness.rank(mesh, 29).states.back().pid() == 0);
  }
  CHECK(harness.agent().live() == 0);
}

TEST_CASE("agent: a stop while procs are being born ends all of them") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "4"}}});
  const auto mesh = harness.run_shell("exec sleep 300", 60);
  harness.wait("some births", [&] { return harness.rank(mesh, 5).state() >= State::running; });
  harness.stop(mesh, 10s);
  harness.wait_ended(mesh, 60);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh))
    CHECK(rank.state() == State::stopped);
  CHECK(harness.launcher->problems.empty());
}

TEST_CASE("agent: signals go to the group") {
  AgentHarness harness;
  const auto mesh =
      harness.run_until_up("trap 'exit 42' USR1; echo up; while :; do sleep 0.05; done", 2);
  wire::SignalProcsT signal;
  signal.mesh = mesh;
  signal.ranks = {wire::RankInterval(1, 2)};
  signal.signal = SIGUSR1;
  CHECK(harness.ask<wire::Ack>(signal).has_value());
  harness.wait("an end", [&] { return harness.rank(mesh, 1).exit_report.has_value(); });
  CHECK(harness.rank(mesh, 1).state() == State::stopped);
  CHECK(harness.rank(mesh, 0).state() == State::ready);
  signal.ranks = {wire::RankInterval(0, 5)};
  CHECK(harness.ask<wire::Ack>(signal).error().code() == ErrorCode::not_exist);
  signal.ranks.clear();
  signal.signal = SIGKILL;
  CHECK(harness.ask<wire::Ack>(signal).has_value());
  harness.wait_ended(mesh, 2);
  CHECK(harness.rank(mesh, 0).state() == State::killed);
  CHECK(harness.rank(mesh, 0).exit_report->reason == "killed by SIGKILL");
}

TEST_CASE("agent: 4 x 250 times true: exact counts") {
  AgentHarness harness;
  std::vector<std::string> meshes;
  for (int i = 0; i < 4; ++i) meshes.push_back(harness.spawn(harness.command({"/bin/true"}, 250)));
  for (const auto& mesh : meshes) {
    harness.wait("250 exit reports", [&] {
      const auto& known = harness.launcher->mesh(mesh);
      return known.size() == 250 && std::all_of(known.begin(), known.end(), [](const auto& entry) {
               return entry.second.exit_report.has_value();
             });
    });
    for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
      CHECK(rank.state() == State::stopped);
      CHECK(rank.states.back().exit_code() == 0);
      CHECK(rank.exit_report->reason == "exit 0");
    }
  }
  CHECK(harness.launcher->problems.empty());
  CHECK(harness.agent().live() == 0);
  // 8000 changes of 1000 procs: in batches, not one by one.
  MESSAGE("messages with changes: " << harness.launcher->state_messages);
  CHECK(harness.launcher->state_messages < 1000);
}

}  // namespace
}  // namespace meshbus::test
