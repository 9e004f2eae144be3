// What a launcher hears when ranks fail, and what it does when nobody listens.
#include <fcntl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <map>

#include "tests/integration/client/sleeping_ranks.h"

namespace meshbus::test::sleeping {

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

TEST_CASE(
    "client: a rank that has forked is killed: who talks to it directly is told at once, though "
    "the "
    "child has all of its sockets") {
  Sleepers ranks("host=1", "gpu=2", {},
                 {.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}});
  const auto asker = must(ranks.mesh->proc(0)), asked = must(ranks.mesh->proc(1));
  REQUIRE(must(asker.call(ranks.context, 31, "", in_time)) == "talked");
  must(asked.call(ranks.context, 29, "", in_time));
  auto answer =
      std::async(std::launch::async, [&] { return asker.call(ranks.context, 32, "", forever); });
  REQUIRE(wait_until(
      [&] { return ranks.heard.output(1, Stream::err).find("busy") != std::string::npos; },
      in_time));
  ::kill(ranks.pid(1), SIGKILL);
  REQUIRE(answer.wait_for(in_time) == std::future_status::ready);
  const auto told = answer.get();
  REQUIRE_FALSE(told.has_value());
  CHECK(told.error().to_string().find("fate_unknown") != std::string::npos);
  CHECK(must(asker.call(ranks.context, 1, "lives on", in_time)) == "lives on");
  CHECK(must(ranks.mesh->wait_for_failure(in_time)).first_failure->rank == 1);
}

}  // namespace meshbus::test::sleeping
