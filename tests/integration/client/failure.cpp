// What a launcher hears when procs, hosts and roles die, and what stop and shutdown say.
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <map>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// A set of signals of a process, by its name in /proc/PID/status.
std::uint64_t bits_of(pid_t pid, std::string_view name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(name.size() + 2), nullptr, 16);
  }
  return 0;
}

/// Sleeping ranks on host processes.
struct Sleepers {
  explicit Sleepers(std::string_view host_extent, std::string_view per_host,
                    std::vector<std::pair<std::string, std::string>> settings = {},
                    ProcSpec spec = {})
      : context(must(Context::create(quick(std::move(settings))))),
        hosts(must(HostMesh::process(context, extent(host_extent), of_this_build()))) {
    if (spec.command.empty()) spec.command = {"sh", "-c", "echo alive >&2; exec " + sleep};
    mesh.emplace(
        must(hosts.spawn("sleepers", extent(per_host), std::move(spec), heard.handlers())));
  }
  pid_t pid(std::uint64_t rank) const { return static_cast<pid_t>(mesh->known().ranks[rank].pid); }
  std::string describe() const {
    std::string text;
    for (const auto& rank : mesh->known().ranks)
      text += rank.describe() + ", wrote \"" + heard.output(rank.rank) + "\"\n";
    return text;
  }
  Roles roles(std::size_t host) const {
    std::optional<Roles> roles;
    const auto wardens = wardens_of(::getpid());
    for (const auto warden : wardens) {
      const auto found = find_roles(warden);
      if (found && found->agent == must(hosts.states())[host].pid) roles = found;
    }
    REQUIRE(roles.has_value());
    return *roles;
  }

  std::string sleep = own_sleep();
  Heard heard;
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> mesh;
};

}  // namespace

TEST_CASE(
    "client: spec 6.6: a killed rank is reported once, with place, signal and last words, soon") {
  Sleepers sleepers("host=2", "gpu=2");
  REQUIRE(wait_until([&] { return processes_with(sleepers.sleep).size() == 4; }, in_time));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(sleepers.pid(3), SIGKILL);
  const auto outcome = must(sleepers.mesh->wait_for_failure(in_time));
  MESSAGE("kill to handler: ",
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                begin)
              .count(),
          " ms");
  const auto failures = sleepers.heard.failures();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].rank == 3);
  CHECK(failures[0].host == sleepers.hosts.hosts()[1]);
  CHECK(failures[0].point == "host=1/2,gpu=1/2");
  CHECK(failures[0].signal == SIGKILL);
  CHECK(failures[0].stderr_tail == "alive\n");
  CHECK(failures[0].shell_code() == 137);
  REQUIRE(outcome.first_failure.has_value());
  CHECK(outcome.first_failure->rank == 3);
  CHECK(must(sleepers.mesh->stop()).first_failure->rank == 3);
  must(sleepers.hosts.shutdown(in_time));
  CHECK(sleepers.heard.failures().size() == 1);
  CHECK(sleepers.heard.ends() == 1);
}

TEST_CASE("client: spec 6.4: a stop ends everything and says how far it had to go") {
  ProcSpec spec;
  const auto sleep = own_sleep();
  spec.command = {
      "sh", "-c",
      "if [ $RANK = 1 ]; then trap '' TERM; fi; echo up; while :; do " + sleep + "; done"};
  spec.grace = 300ms;
  spec.output = OutputMode::stream;
  Sleepers sleepers("host=1", "gpu=2", {}, spec);
  const bool are_up = wait_until(
      [&] { return sleepers.heard.output(0) == "up\n" && sleepers.heard.output(1) == "up\n"; },
      in_time);
  INFO(sleepers.describe());
  REQUIRE(are_up);
  const auto outcome = must(sleepers.mesh->stop({.reason = "enough"}));
  CHECK(outcome.is_ended());
  CHECK(outcome.exit_code() == 0);
  CHECK(outcome.ranks[0].step == StopStep::term);
  CHECK(outcome.ranks[1].step == StopStep::kill);
  CHECK(outcome.ranks[1].stop_reason == "enough");
  CHECK_FALSE(outcome.ranks[1].stopped_by.empty());
  CHECK(must(sleepers.mesh->stop()).is_ended());
  CHECK(sleepers.heard.failures().empty());
  CHECK(processes_with(sleep).empty());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: some ranks can be stopped and signalled, the others go on") {
  Sleepers sleepers("host=2", "gpu=2");
  const auto outcome = must(sleepers.mesh->stop({.reason = "smaller", .ranks = {{1, 3}}}));
  CHECK_FALSE(outcome.is_ended());
  CHECK(outcome.ranks[1].is_terminal());
  CHECK(outcome.ranks[2].is_terminal());
  CHECK(sleepers.mesh->known().ranks[0].state == ProcState::ready);
  CHECK(sleepers.mesh->signal({{0, 1}, {3, 4}}, SIGUSR1).has_value());
  CHECK(must(sleepers.mesh->wait(in_time)).ranks[3].signal == SIGUSR1);
  CHECK(sleepers.mesh->signal({}, SIGUSR1).error().code() == ErrorCode::not_exist);
  CHECK(sleepers.mesh->signal({}, 99).error().code() == ErrorCode::configuration_error);
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: spec 6.4: a stop that reaches nobody says so and names the ranks") {
  Sleepers sleepers("host=1", "gpu=2");
  const auto agent = sleepers.roles(0).agent;
  ::kill(agent, SIGSTOP);
  const auto stopped = sleepers.mesh->stop({.deadline = 700ms});
  const auto status = must(sleepers.mesh->status(300ms));
  ::kill(agent, SIGCONT);
  REQUIRE_FALSE(stopped.has_value());
  INFO(stopped.error().to_string());
  CHECK(stopped.error().code() == ErrorCode::stop_error);
  CHECK(stopped.error().detail().find("2 of 2 ranks are not ended: rank 0 (host=0,gpu=0 on ") !=
        std::string::npos);
  CHECK(stopped.error().detail().find("did not take the order") != std::string::npos);
  for (const auto& rank : status) CHECK(rank.state == ProcState::unknown);
  CHECK(must(sleepers.mesh->stop()).is_ended());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: a signal that a host does not take says which ranks got it and which did not") {
  Sleepers sleepers("host=2", "gpu=2");
  const auto agent = sleepers.roles(1).agent;
  ::kill(agent, SIGSTOP);
  const auto sent = sleepers.mesh->signal({}, SIGCONT, 700ms);
  ::kill(agent, SIGCONT);
  REQUIRE_FALSE(sent.has_value());
  INFO(sent.error().to_string());
  CHECK(sent.error().code() == ErrorCode::timeout);
  CHECK(sent.error().detail().find(": ranks 0-1 got it; ranks 2-3 on " +
                                   sleepers.hosts.hosts()[1].to_string() + " did not: ") !=
        std::string::npos);
  CHECK(sleepers.mesh->signal({}, SIGCONT).has_value());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE("client: a signal is with the kernel when signal() returns, and not before") {
  Sleepers sleepers("host=1", "gpu=2", {}, shell("exec env --block-signal=USR1 " + own_sleep()));
  const auto blocks = [&](std::uint64_t rank) {
    return bits_of(sleepers.pid(rank), "SigBlk") >> (SIGUSR1 - 1) & 1;
  };
  REQUIRE(wait_until([&] { return blocks(0) != 0 && blocks(1) != 0; }, in_time));
  const auto keeper = sleepers.roles(0).keeper;
  ::kill(keeper, SIGSTOP);
  const auto sent = sleepers.mesh->signal({}, SIGUSR1, 700ms);
  ::kill(keeper, SIGCONT);
  REQUIRE_FALSE(sent.has_value());
  CHECK(sent.error().code() == ErrorCode::timeout);
  REQUIRE(sleepers.mesh->signal({}, SIGUSR1).has_value());
  for (std::uint64_t rank = 0; rank < 2; ++rank)
    CHECK((bits_of(sleepers.pid(rank), "ShdPnd") >> (SIGUSR1 - 1) & 1) != 0);
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE(
    "client: when a host process dies its ranks are lost, at once and in words, and the others go "
    "on") {
  Sleepers sleepers("host=2", "gpu=2");
  std::size_t victim = 0;
  SUBCASE("the host to which the launcher is connected") {
    victim = 0;
  }
  SUBCASE("another one") {
    victim = 1;
  }
  ::kill(sleepers.roles(victim).warden, SIGKILL);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 2; }, in_time));
  for (const auto& rank : sleepers.heard.failures()) {
    INFO(rank.describe());
    CHECK(rank.host_index == victim);
    CHECK(rank.is_failure());
  }
  // Nothing will ever answer there: calls say so, and do not wait.
  const auto lost = must(sleepers.mesh->proc(2 * victim));
  const auto is_unreachable = [](const auto& answer) {
    return !answer && answer.error().code() == ErrorCode::host_unreachable;
  };
  REQUIRE(wait_until([&] { return is_unreachable(lost.call(sleepers.context, 1, "", 200ms)); },
                     in_time));
  const auto begin = std::chrono::steady_clock::now();
  const auto called = lost.call(sleepers.context, 1, "", in_time);
  CHECK(is_unreachable(called));
  CHECK(called.error().detail().find(sleepers.hosts.hosts()[victim].to_string() + " is lost: ") !=
        std::string::npos);
  const auto all =
      must(sleepers.context.call(must(sleepers.mesh->ref().at("host", victim)), 1, "", in_time));
  REQUIRE(all.size() == 2);
  for (const auto& answer : all) CHECK(is_unreachable(answer));
  CHECK(std::chrono::steady_clock::now() - begin < in_time / 2);
  REQUIRE(wait_until(
      [&] { return sleepers.mesh->stop({.grace = 100ms, .deadline = 10s}).has_value(); }, in_time));
  CHECK(sleepers.heard.failures().size() == 2);
  const auto summary = sleepers.hosts.shutdown(in_time);
  INFO((summary ? std::string() : summary.error().to_string()));
  CHECK(summary.has_value());
  CHECK(wait_until([&] { return processes_with(sleepers.sleep).empty(); }, cleaned_up));
}

TEST_CASE(
    "client: spec 6.8: when the host is lost through which a launcher hears, no line of the others "
    "is missing, and the end comes at once") {
  constexpr int kLines = 400;
  ProcSpec spec;
  spec.output = OutputMode::stream;
  spec.command = {"sh", "-c",
                  "i=0; while [ $i -lt " + std::to_string(kLines) +
                      " ]; do i=$((i+1)); echo line $i; sleep 0.01; done"};
  Sleepers sleepers("host=3", "gpu=2", {}, spec);
  REQUIRE(wait_until([&] { return sleepers.heard.output(2).size() > 200; }, in_time));
  ::kill(sleepers.roles(0).warden, SIGKILL);
  const auto outcome = must(sleepers.mesh->wait(60s));
  const auto told = std::chrono::system_clock::now();
  std::string all;
  for (int i = 1; i <= kLines; ++i) all += "line " + std::to_string(i) + "\n";
  std::chrono::system_clock::time_point last;
  for (std::uint64_t rank = 2; rank < 6; ++rank) {
    INFO(outcome.ranks[rank].describe());
    CHECK(outcome.ranks[rank].exit_code == 0);
    CHECK(sleepers.heard.output(rank).size() == all.size());
    CHECK((sleepers.heard.output(rank) == all));
    last = std::max(last, outcome.ranks[rank].ended.value_or(last));
  }
  CHECK(told - last < 2s);
  CHECK(sleepers.heard.failures().size() == 2);
  CHECK(sleepers.hosts.shutdown(in_time).has_value());
}

TEST_CASE("client: a new broker is found again, and nothing that happened meanwhile is missed") {
  Sleepers sleepers("host=1", "gpu=2");
  const auto roles = sleepers.roles(0);
  ::kill(roles.broker, SIGKILL);
  ::kill(sleepers.pid(1), SIGTERM);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 1; }, in_time));
  CHECK(sleepers.heard.failures()[0].rank == 1);
  CHECK(sleepers.heard.failures()[0].signal == SIGTERM);
  CHECK(must(sleepers.mesh->stop()).is_ended());
  must(sleepers.hosts.shutdown(in_time));
}

TEST_CASE(
    "client: an agent is replaced before it was ever asked who it is, while the launcher moves: "
    "the next one is asked for everything") {
  Sleepers sleepers("host=2", "gpu=1", {{"supervision.probe", "5s"}});
  const auto first = sleepers.roles(0);
  const auto second = sleepers.roles(1);
  REQUIRE(::kill(second.agent, SIGSTOP) == 0);
  REQUIRE(::kill(first.warden, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 1; }, in_time));
  // The launcher goes on from the second host, and asks the agent there for what it knows: in vain.
  CHECK_FALSE(must(sleepers.hosts.states(1s))[1].problem.empty());
  REQUIRE(::kill(second.agent, SIGKILL) == 0);
  const auto is_replaced = [&] {
    const auto now = find_roles(second.warden);
    return now && now->agent != second.agent;
  };
  REQUIRE(wait_until(is_replaced, in_time));
  REQUIRE(::kill(sleepers.pid(1), SIGTERM) == 0);
  REQUIRE(wait_until([&] { return sleepers.heard.failures().size() == 2; }, in_time));
  CHECK(sleepers.heard.failures()[1].signal == SIGTERM);
  CHECK(sleepers.hosts.shutdown(in_time).has_value());
}

TEST_CASE(
    "client: spec 6.6: nobody listens to failures: the launcher says what died, stops the mesh and "
    "exits with its code") {
  int err[2];
  REQUIRE(::pipe2(err, O_CLOEXEC) == 0);
  const auto sleep = own_sleep();
  auto spec = shell("if [ $RANK = 1 ]; then sleep 0.2; echo why >&2; exit 3; fi; exec " + sleep);
  std::string place = "rank 1 (host=0,gpu=1 on ";
  SUBCASE("one rank of a mesh that is up") {}
  SUBCASE("all ranks at once, while the mesh starts") {
    spec = shell("echo why >&2; exit 3");
    spec.wait_ready = false;
    place = " (host=0,gpu=";
  }
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::dup2(err[1], STDERR_FILENO);
    auto context = Context::create();
    auto hosts = HostMesh::process(*context, *Extent::parse("host=1"), of_this_build());
    if (!hosts) ::_exit(99);
    auto mesh = hosts->spawn("m", *Extent::parse("gpu=2"), spec);
    if (!mesh) ::_exit(98);
    auto outcome = mesh->wait(forever);
    ::_exit(97);
  }
  ::close(err[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(err[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  ::close(err[0]);
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  INFO(text);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 3);
  CHECK(text.find(place) != std::string::npos);
  CHECK(text.find("): exit 3\n") != std::string::npos);
  CHECK(text.find("why\n") != std::string::npos);
  CHECK(wait_until([&] { return processes_with(sleep).empty(); }, cleaned_up));
}

TEST_CASE(
    "client: spec 6.6: when all ranks of a mesh fail at once, on_failure is called for each of "
    "them, once, before on_end") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  constexpr int kRounds = 10;
  for (const std::string command : {"exec false", "exit 3", "sleep 0.01; exit 3", "kill -9 $$",
                                    "echo why >&2; exit $((RANK + 1))"}) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::uint64_t> told;
      std::vector<std::uint64_t> told_at_end;
      Handlers handlers{.on_failure = [&](const RankReport& rank) { told.push_back(rank.rank); },
                        .on_end = [&](const MeshOutcome&) { told_at_end = told; }};
      auto spec = shell(command);
      spec.wait_ready = false;
      auto mesh = must(hosts.spawn("brief", extent("gpu=2"), spec, std::move(handlers)));
      if (round % 2 == 0) must(mesh.wait_for_failure(in_time));
      const auto outcome = must(mesh.wait(in_time));
      INFO(command, ", round ", round, ": told ", told.size());
      for (const auto& rank : outcome.ranks) CHECK(rank.is_failure());
      // Nothing is told after the end, which wait() has waited for.
      std::sort(told_at_end.begin(), told_at_end.end());
      REQUIRE(told_at_end == std::vector<std::uint64_t>{0, 1, 2, 3});
      REQUIRE(told.size() == 4);
      REQUIRE(outcome.first_failure.has_value());
    }
  }
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 4.3: a mesh proc that ends with exit 0 before its hello has failed, and is asked "
    "whether it is one") {
  const std::string words = "ended with exit 0 before it said hello (is it a mesh program?)";
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  ProcSpec spec{.kind = ProcKind::mesh, .command = {"true"}};
  const auto refused = hosts.spawn("no", extent("gpu=2"), spec, heard.handlers());
  REQUIRE_FALSE(refused.has_value());
  INFO(refused.error().to_string());
  CHECK(refused.error().code() == ErrorCode::proc_creation_error);
  CHECK(refused.error().detail().find(words) != std::string::npos);
  CHECK(heard.failures().empty());
  spec.wait_ready = false;
  auto mesh = must(hosts.spawn("no", extent("gpu=2"), spec, heard.handlers()));
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 125);
  REQUIRE(heard.failures().size() == 2);
  for (const auto& rank : heard.failures()) {
    CHECK(rank.state == ProcState::failed);
    CHECK(rank.cause == Cause::not_ready);
    CHECK(rank.reason == words);
  }
  // Plain procs have nothing to say.
  CHECK(must(must(hosts.spawn("yes", extent("gpu=2"), {.command = {"true"}}, heard.handlers()))
                 .wait(in_time))
            .exit_code() == 0);
  must(hosts.shutdown(in_time));
  const auto run = run_cli({"run", "--mesh", "-n", "2", "--", "true"});
  CHECK(run.status == ExitStatus::exited(125));
  CHECK(run.err.find(words) != std::string::npos);
}

TEST_CASE(
    "client: on_state tells each change of each rank once, in order, also when they come "
    "together") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    Heard heard;
    auto spec = shell("kill -9 $$");
    spec.wait_ready = false;
    auto mesh = must(hosts.spawn("brief", extent("gpu=4"), spec, heard.handlers()));
    must(mesh.wait(in_time));
    std::map<std::uint64_t, std::vector<RankReport>> of_rank;
    for (const auto& report : heard.states()) of_rank[report.rank].push_back(report);
    CHECK(of_rank.size() == 4);
    for (const auto& [rank, reports] : of_rank) {
      std::string states;
      for (std::size_t i = 0; i < reports.size(); ++i) {
        states += std::string(to_string(reports[i].state)) + " ";
        if (i != 0) CHECK(reports[i].generation > reports[i - 1].generation);
      }
      INFO("round ", round, ", rank ", rank, ": ", states);
      CHECK(states.ends_with("running ready killed "));
    }
  }
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 6.6: a mesh that fails at once and is stopped at once: stop() returns when its "
    "failures are told") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    Heard heard;
    auto spec = shell("exit 3");
    spec.wait_ready = false;
    auto mesh = must(hosts.spawn("brief", extent("gpu=3"), spec, heard.handlers()));
    // Ranks that the stop was earlier for have not failed.
    const auto outcome = must(mesh.stop());
    std::size_t failed = 0;
    for (const auto& rank : outcome.ranks) failed += static_cast<std::size_t>(rank.is_failure());
    INFO("round ", round, ": ", failed, " failed");
    REQUIRE(heard.failures().size() == failed);
  }
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 8.9: a gang that fails at once is told for good once per rank when its budget is "
    "spent") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    Heard heard;
    auto handlers = heard.handlers();
    int restarts = 0;
    handlers.on_restart = [&](const RestartReport&) { ++restarts; };
    auto spec = shell("exit 3");
    spec.wait_ready = false;
    spec.restart = {
        .on = RestartPolicy::On::failure, .budget = 1, .gang = Gang::all, .delay = 10ms};
    auto mesh = must(hosts.spawn("brief", extent("gpu=3"), spec, std::move(handlers)));
    const auto outcome = must(mesh.wait(in_time));
    INFO("round ", round);
    CHECK(restarts == 1);
    CHECK(heard.ends() == 1);
    std::vector<std::uint64_t> told;
    for (const auto& rank : heard.failures()) {
      CHECK(rank.restarts == 1);
      told.push_back(rank.rank);
    }
    std::sort(told.begin(), told.end());
    CHECK(told == std::vector<std::uint64_t>{0, 1, 2});
    CHECK(outcome.exit_code() == 3);
  }
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 4.7: a killed launcher takes its hosts with it, though a copy of it made by fork "
    "lives on") {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const auto sleep = own_sleep();
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    auto context = Context::create();
    auto hosts = HostMesh::process(*context, *Extent::parse("host=2"), of_this_build());
    if (!hosts) ::_exit(99);
    auto mesh = hosts->spawn("m", *Extent::parse("gpu=2"), shell("exec " + sleep));
    if (!mesh) ::_exit(98);
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::alarm(60);
      for (;;) ::pause();
    }
    if (::write(ready[1], &copy, sizeof copy) != sizeof copy) ::_exit(97);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  pid_t copy = 0;
  const bool is_ready = ::read(ready[0], &copy, sizeof copy) == sizeof copy;
  ::close(ready[0]);
  REQUIRE(is_ready);
  REQUIRE(wait_until([&] { return processes_with(sleep).size() == 4; }, in_time));
  ::kill(launcher, SIGKILL);
  const auto took = time_until([&] { return processes_with(sleep).empty(); }, in_time);
  REQUIRE(took.has_value());
  CHECK(*took < cleaned_up);
  ::kill(copy, SIGKILL);
  CHECK(::waitpid(launcher, nullptr, 0) == launcher);
}

TEST_CASE("client: handlers may call the library, and may let go of the mesh") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  std::promise<std::string> stopped;
  std::optional<ProcMesh> mesh;
  std::mutex made;
  std::unique_lock hold(made);
  Handlers handlers;
  handlers.on_failure = [&](const RankReport& rank) {
    const std::lock_guard wait_until_made(made);
    const auto outcome = mesh->stop({.reason = "in a handler", .grace = 100ms});
    auto text =
        rank.words() + "; " +
        (outcome ? (outcome->is_ended() ? "ended" : "not ended") : outcome.error().to_string());
    mesh.reset();
    stopped.set_value(std::move(text));
  };
  auto spec = shell("if [ $RANK = 1 ]; then exit 5; fi; exec sleep 100");
  spec.wait_ready = false;
  mesh.emplace(must(hosts.spawn("m", extent("gpu=2"), spec, handlers)));
  hold.unlock();
  auto future = stopped.get_future();
  REQUIRE(future.wait_for(in_time) == std::future_status::ready);
  CHECK(future.get() == "exit 5; ended");
  must(hosts.shutdown(in_time));
}
