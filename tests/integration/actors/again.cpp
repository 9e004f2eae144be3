// Actors of ranks that are restarted (spec 8.9): made again where that was asked for.
#include <csignal>
#include <future>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Two ranks that are restarted when they fail, with the actors of meshbus_test_actors.
struct Restarted {
  explicit Restarted(RestartPolicy policy,
                     std::vector<std::string> command = {bin("meshbus_test_actors")})
      : context(must(Context::create(quick()))),
        hosts(must(HostMesh::process(context, extent("host=1"), of_this_build()))),
        procs(must(hosts.spawn("again", extent("gpu=2"),
                               {.kind = ProcKind::mesh,
                                .command = std::move(command),
                                .output = OutputMode::stream,
                                .restart = std::move(policy)},
                               heard.handlers()))) {}
  ActorSpawnOptions again() {
    return {.on_failure = [this](const ActorReport& report) { add(failures, report); },
            .again = true,
            .on_again = [this](const ActorReport& report) { add(made, report); }};
  }
  std::vector<ActorReport> all_of(const std::vector<ActorReport>& list) {
    const std::lock_guard lock(mutex);
    return list;
  }
  void kill(std::uint64_t rank) {
    ::kill(static_cast<pid_t>(procs.known().ranks[rank].pid), SIGKILL);
  }
  bool is_ready(std::uint64_t rank, std::uint64_t restarts) {
    return wait_until(
        [&] {
          const auto now = procs.known().ranks[rank];
          return now.restarts == restarts && now.state == ProcState::ready;
        },
        in_time);
  }

  Heard heard;
  std::mutex mutex;
  std::vector<ActorReport> failures;  // guarded by mutex, like what follows
  std::vector<ActorReport> made;
  Context context;
  HostMesh hosts;
  ProcMesh procs;

 private:
  void add(std::vector<ActorReport>& list, const ActorReport& report) {
    const std::lock_guard lock(mutex);
    list.push_back(report);
  }
};

RestartPolicy soon(std::uint64_t budget, std::chrono::milliseconds delay = 50ms) {
  return {.on = RestartPolicy::On::failure, .budget = budget, .delay = delay, .max_delay = delay};
}

}  // namespace

TEST_CASE(
    "actors: spec 8.9: in a rank that was restarted they are made again with the same params; a "
    "call to the attempt before ends once, with its exit report, and later ones reach the new "
    "actor") {
  Restarted world(soon(5));
  auto tally = must(world.procs.spawn_actors("counter", "tally", "40", world.again()));
  REQUIRE(must(must(tally.call("add", "2", in_time))[1]) == "42");
  for (std::uint64_t attempt = 1; attempt <= 2; ++attempt) {
    CAPTURE(attempt);
    const auto before = world.procs.known().ranks[1];
    std::atomic<int> answers{0};
    std::promise<Result<std::string>> first;
    must(tally.at("gpu", 1))
        .call_async("sleep", "60000", {.deadline = 60s},
                    [&](std::uint64_t, Result<std::string> answer) {
                      if (answers++ == 0) first.set_value(std::move(answer));
                    });
    REQUIRE(wait_until(
        [&] {
          const auto said = world.heard.output(1, Stream::err);
          std::size_t begin = 0;
          for (std::uint64_t i = 0; i < attempt && begin != std::string::npos; ++i)
            begin = said.find("made ", begin + (i == 0 ? 0 : 1));
          return begin != std::string::npos && said.find("sleeps", begin) != std::string::npos;
        },
        in_time));
    world.kill(1);
    const auto answer = first.get_future().get();
    REQUIRE_FALSE(answer.has_value());
    INFO(answer.error().to_string());
    CHECK(answer.error().code() == ErrorCode::fate_unknown);
    CHECK(answer.error().detail().find("killed by SIGKILL") != std::string::npos);
    REQUIRE(wait_until([&] { return world.all_of(world.made).size() == attempt; }, in_time));
    CHECK(answers == 1);
    const auto made = world.all_of(world.made).back();
    CHECK(made.rank == 1);
    CHECK(made.restarts == attempt);
    CHECK(made.status.kind() == Status::Kind::running);
    CHECK(world.procs.known().ranks[1].pid != before.pid);
    const auto sums = must(tally.call("add", "2", in_time));
    CHECK(must(sums[0]) == std::to_string(42 + 2 * attempt));
    CHECK(must(sums[1]) == "42");  // from the beginning
    CHECK(tally.known()[1].status.kind() == Status::Kind::running);
    CHECK_FALSE(tally.known()[1].proc.has_value());
  }
  CHECK(world.all_of(world.failures).empty());
  // A failure of its own counts as in the first attempt.
  CHECK(must(must(tally.at("gpu", 1)).call("throw", "boom", in_time))[0].error().code() ==
        ErrorCode::call_error);
  REQUIRE(wait_until([&] { return world.all_of(world.failures).size() == 1; }, in_time));
  CHECK(world.all_of(world.failures)[0].message == "throw");
  CHECK(world.all_of(world.failures)[0].restarts == 2);
  const auto ended = must(tally.stop());
  CHECK(ended[0].status.kind() == Status::Kind::stopped);
  CHECK(ended[1].status.kind() == Status::Kind::failed);
  must(world.procs.stop());
  must(world.hosts.shutdown(in_time));
}

TEST_CASE(
    "actors: spec 8.9: without the option calls to a restarted rank say that its actor was not "
    "made again") {
  Restarted world(soon(5));
  auto options = world.again();
  options.again = false;
  auto tally = must(world.procs.spawn_actors("counter", "tally", "0", std::move(options)));
  world.kill(1);
  REQUIRE(world.is_ready(1, 1));
  const auto answers = must(tally.call("add", "2", in_time));
  CHECK(must(answers[0]) == "2");
  REQUIRE_FALSE(answers[1].has_value());
  INFO(answers[1].error().to_string());
  CHECK(answers[1].error().code() == ErrorCode::no_such_port);
  CHECK(answers[1].error().detail().find(
            "rank 1 was restarted, and these actors are not made again "
            "(ActorSpawnOptions::again): rank 1 (host=0,gpu=1 on ") != std::string::npos);
  std::promise<Error> later;
  must(tally.at("gpu", 1))
      .call_async("add", "2", {.deadline = in_time},
                  [&](std::uint64_t, const Result<std::string>& answer) {
                    later.set_value(answer ? Error(ErrorCode::none, *answer) : answer.error());
                  });
  CHECK(later.get_future().get().detail().find("rank 1 was restarted") != std::string::npos);
  CHECK(world.all_of(world.made).empty());
  CHECK(wait_until([&] { return world.all_of(world.failures).size() == 1; }, in_time));
  must(world.procs.stop());
  must(world.hosts.shutdown(in_time));
}

TEST_CASE("actors: spec 8.9: an end that no restart follows is told once, and only then") {
  Restarted world(soon(1));
  auto tally = must(world.procs.spawn_actors("counter", "tally", "0", world.again()));
  world.kill(0);
  REQUIRE(wait_until([&] { return world.all_of(world.made).size() == 1; }, in_time));
  CHECK(world.all_of(world.failures).empty());
  world.kill(0);
  const auto failure = must(tally.wait_for_failure(in_time));
  CHECK(failure.rank == 0);
  REQUIRE(failure.proc.has_value());
  CHECK(failure.proc->restarts == 1);
  CHECK_FALSE(failure.proc->is_restarting);
  REQUIRE(wait_until([&] { return world.heard.failures().size() == 1; }, in_time));
  CHECK(world.all_of(world.failures).size() == 1);
  must(world.procs.stop());
  must(world.hosts.shutdown(in_time));
}

TEST_CASE(
    "actors: spec 8.9: the failure is told when the last attempt ends before its actor was made") {
  Restarted world(
      soon(1),
      {"sh", "-c", "[ $MESHBUS_RESTARTS = 0 ] || exit 5; exec " + bin("meshbus_test_actors")});
  auto tally = must(world.procs.spawn_actors("counter", "tally", "0", world.again()));
  world.kill(0);
  const auto failure = must(tally.wait_for_failure(in_time));
  CHECK(failure.rank == 0);
  CHECK(failure.proc.value().restarts == 1);
  CHECK(failure.proc.value().exit_code == 5);
  CHECK_FALSE(failure.proc.value().is_restarting);
  REQUIRE(wait_until([&] { return world.all_of(world.failures).size() == 1; }, in_time));
  CHECK(world.all_of(world.made).empty());
  must(world.procs.stop());
  must(world.hosts.shutdown(in_time));
}

TEST_CASE(
    "actors: spec 8.9: what is stopped between two attempts is not made again, and a failure that "
    "waited for its restart is told when there is none") {
  Restarted world(soon(5, 1h));
  auto tally = must(world.procs.spawn_actors("counter", "tally", "0", world.again()));
  auto other = must(world.procs.spawn_actors("counter", "other", "0", world.again()));
  world.kill(1);
  REQUIRE(wait_until([&] { return tally.known()[1].proc.has_value(); }, in_time));
  CHECK(tally.known()[1].proc->is_restarting);
  CHECK(world.all_of(world.failures).empty());
  const auto ended = must(tally.stop());
  CHECK(ended[0].status.kind() == Status::Kind::stopped);
  CHECK(ended[1].status.kind() == Status::Kind::failed);
  must(world.procs.stop());
  // Each is told once: neither is restarted any more.
  REQUIRE(wait_until([&] { return world.all_of(world.failures).size() == 2; }, in_time));
  for (const auto& failure : world.all_of(world.failures)) {
    CHECK(failure.rank == 1);
    CHECK_FALSE(failure.proc.value().is_restarting);
  }
  CHECK(world.all_of(world.made).empty());
  must(world.hosts.shutdown(in_time));
}

TEST_CASE(
    "actors: spec 8.9: they are made again in a whole gang, and what does not come up fails") {
  auto policy = soon(5);
  policy.gang = Gang::all;
  Restarted world(policy);
  auto tally = must(world.procs.spawn_actors("counter", "tally", "7", world.again()));
  world.kill(0);
  REQUIRE(wait_until([&] { return world.all_of(world.made).size() == 2; }, in_time));
  for (const auto& answer : must(tally.call(7, "", in_time))) CHECK(must(answer) == "7");
  CHECK(world.all_of(world.failures).empty());
  must(tally.stop());
  world.kill(1);
  REQUIRE(world.is_ready(0, 2));
  REQUIRE(world.is_ready(1, 2));
  for (const auto& answer : must(tally.call(7, "", in_time)))
    CHECK(answer.error().code() == ErrorCode::no_such_port);
  CHECK(world.all_of(world.made).size() == 2);
  must(world.procs.stop());
  must(world.hosts.shutdown(in_time));
}
