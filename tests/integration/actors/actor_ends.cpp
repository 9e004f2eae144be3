// How actors end, by themselves or with others, and what their launcher hears.
#include <csignal>
#include <future>

#include "tests/integration/actors/actor_world.h"

namespace meshbus::test::actor_world {

TEST_CASE(
    "actors: spec 7.2: a constructor that throws is an error with rank and text; those that were "
    "made are stopped, the procs stay usable") {
  Actors actors("host=1", "gpu=3");
  const auto broken = actors.procs->spawn_actors("fragile", "model", "1");
  REQUIRE_FALSE(broken.has_value());
  INFO(broken.error().to_string());
  CHECK(broken.error().code() == ErrorCode::actor_spawn_error);
  CHECK(broken.error().detail().find("1 of 3 were not made: rank 1: actor_spawn_error: ") !=
        std::string::npos);
  CHECK(broken.error().detail().find("no such model") != std::string::npos);
  const auto view = must(ActorView::attach(
      actors.context, ActorMeshRef(actors.procs->ref(), must(Name::plain("model")))));
  CHECK(wait_until([&] { return must(view.states(in_time))[0].status == Status::Kind::stopped; },
                   in_time));
  CHECK(must(view.states(in_time))[1].status.kind() == Status::Kind::failed);
  // Late and repeated: the same answer.
  CHECK(
      actors.procs->spawn_actors("fragile", "model", "1").error().detail().find("no such model") !=
      std::string::npos);
  CHECK(actors.procs->spawn_actors("twice", "twice", "")
            .error()
            .detail()
            .find("two handlers for one message: same and same") != std::string::npos);
  auto fine = actors.spawn("fragile", "second", "none");
  CHECK(values(must(fine.call(1, "", in_time))) == Texts(3, "fine"));
  CHECK(actors.heard.failures().empty());
}

TEST_CASE(
    "actors: spec 7.1: what a handler throws ends this actor and no other, and is told once, with "
    "message and causes") {
  Actors actors("host=1", "gpu=2");
  auto tally = actors.spawn("counter", "tally", "0");
  auto other = actors.spawn("counter", "other", "5");
  const auto answers = must(must(tally.at("gpu", 1)).at("host", 0));
  const auto failed = must(answers.call("throw", "no checkpoint", in_time));
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].error().code() == ErrorCode::call_error);
  CHECK(failed[0].error().detail().find(
            "has failed: no checkpoint; because: cannot write; because: disk full") !=
        std::string::npos);
  const auto failure = must(tally.wait_for_failure(in_time));
  CHECK(failure.rank == 1);
  CHECK(failure.message == "throw");
  CHECK(failure.reason == "no checkpoint");
  CHECK(failure.causes == Texts{"cannot write", "disk full"});
  CHECK_FALSE(failure.proc.has_value());
  CHECK(failure.describe() ==
        "rank 1 (host=0/1,gpu=1/2): actor " + must(tally.ref().actor_at(1)).to_string() +
            " failed in message throw: no checkpoint; because: cannot write; because: disk full");
  // The proc, its other actors and its handlers live on.
  CHECK(values(must(tally.call(7, "", in_time)))[0] == "0");
  CHECK(must(tally.call(7, "", in_time))[1].error().detail().find(
            "has failed in message throw: no checkpoint") != std::string::npos);
  CHECK(values(must(other.call(7, "", in_time))) == Texts(2, "5"));
  CHECK(must(must(actors.procs->proc(1)).call(actors.context, 1, "handlers too")) ==
        "handlers too");
  // An Error is an answer; what is no number is an exception; an int is one too.
  const auto refused = must(other.call("refuse", "", in_time));
  CHECK(refused[0].error().to_string() == "call_error: out_of_range: not that much");
  CHECK(must(other.call("no such message", "", in_time))[0].error().code() ==
        ErrorCode::no_such_port);
  CHECK(must(other.call("throw an int", "", in_time))[0].error().detail().find(
            "an exception that is no std::exception") != std::string::npos);
  CHECK(wait_until([&] { return actors.heard_failures().size() == 3; }, in_time));
  const auto ended = must(tally.stop());
  CHECK(ended[0].status == Status::Kind::stopped);
  CHECK(ended[1].status.kind() == Status::Kind::failed);
  must(actors.procs->stop());
  CHECK(actors.heard_failures().size() == 3);
  CHECK(actors.heard.failures().empty());
}

TEST_CASE("actors: children are stopped before their parent, and their failures are its business") {
  Actors actors("host=1", "gpu=1");
  auto social = actors.spawn("social", "social", "");
  const auto name = must(social.ref().actor_at(0)).proc().to_string() + ",social";
  CHECK(values(must(social.call("spawn", "child", in_time))) == Texts{name + "[1]"});
  CHECK(values(must(social.call("spawn", "child", in_time))) == Texts{name + "[2]"});
  CHECK(must(social.call("spawn", "gauge", in_time))[0].error().detail().find(
            "actor_type_not_registered") != std::string::npos);
  CHECK(values(must(social.call("forgive", "", in_time))) == Texts{""});
  CHECK(values(must(social.call("tell child", "spilt milk", in_time))) == Texts{"sent"});
  CHECK(wait_until(
      [&] {
        return values(must(social.call("failures", "", in_time))) ==
               Texts{"social[2] throw: spilt milk "};
      },
      in_time));
  CHECK(must(social.stop({.reason = "bedtime"}))[0].status == Status::Kind::stopped);
  CHECK(actors.says(0, "child 1 stops: its parent social[0] stops: bedtime\nparent stops"));
  CHECK(actors.heard_failures().empty());

  auto strict = actors.spawn("social", "strict", "");
  CHECK(values(must(strict.call("spawn", "child", in_time)))[0].ends_with("strict[1]"));
  CHECK(values(must(strict.call("spawn", "child", in_time)))[0].ends_with("strict[2]"));
  CHECK(values(must(strict.call("tell child", "spilt milk", in_time))) == Texts{"sent"});
  const auto failure = must(strict.wait_for_failure(in_time));
  CHECK(failure.reason == "its child strict[2] has failed");
  CHECK(failure.causes == Texts{"in message throw: spilt milk"});
  CHECK(actors.says(0, "child 1 stops: its parent strict[0] has failed"));
  // One that throws instead of dealing with it: both failures are told.
  auto desperate = actors.spawn("social", "desperate", "");
  CHECK(values(must(desperate.call("spawn", "child", in_time)))[0].ends_with("desperate[1]"));
  CHECK(values(must(desperate.call("despair", "", in_time))) == Texts{""});
  CHECK(values(must(desperate.call("tell child", "spilt milk", in_time))) == Texts{"sent"});
  const auto both = must(desperate.wait_for_failure(in_time));
  CHECK(both.reason == "that is too much");
  CHECK(both.message == "the failure of its child desperate[1]");
  CHECK(both.causes == Texts{"in message throw: spilt milk"});
  // A child whose constructor throws, and one of another kind.
  auto third = actors.spawn("social", "third", "");
  CHECK(values(must(third.call("spawn", "fragile all", in_time)))[0].ends_with("third[1]"));
  CHECK(must(third.wait_for_failure(in_time)).causes == Texts{"no such model"});
}

TEST_CASE(
    "actors: a stop lets the mailbox be handled, within the grace; what throws at the end has "
    "failed") {
  Actors actors("host=1", "gpu=1");
  auto fence = actors.spawn("counter", "fence", "0");
  const auto fill = [&](ActorMesh& mesh) {
    CHECK(mesh.send("sleep", "300").has_value());
    for (int i = 0; i < 10; ++i) CHECK(mesh.send("add", "1").has_value());
    // Control overtakes data: a stop would be there first.
    CHECK(values(must(fence.call(7, "", in_time))) == Texts{"0"});
  };
  auto patient = actors.spawn("counter", "patient", "0");
  fill(patient);
  auto report = must(patient.stop({.reason = "enough"}))[0];
  CHECK(report.status == Status::Kind::stopped);
  CHECK(report.handled == 11);
  CHECK(report.dropped == 0);
  CHECK(actors.says(0, "on_stop of 0 at 10: enough\ndestroyed"));

  auto hasty = actors.spawn("counter", "hasty", "0");
  auto waits =
      std::async(std::launch::async, [&] { return must(hasty.call("sleep", "300", in_time)); });
  REQUIRE(actors.says(0, "hasty[0]\nsleeps"));
  fill(hasty);
  report = must(hasty.stop({.reason = "now", .grace = 0ms}))[0];
  CHECK(report.status == Status::Kind::stopped);
  CHECK(report.handled + report.dropped == 12);
  CHECK(report.dropped >= 10);
  waits.get();

  auto own = actors.spawn("counter", "own", "0");
  CHECK(values(must(own.call("stop", "my own wish", in_time))) == Texts{""});
  CHECK(wait_until([&] { return own.known()[0].status == Status::Kind::stopped; }, in_time));
  CHECK(own.known()[0].reason == "my own wish");

  auto bad = actors.spawn("bad_end", "bad", "");
  CHECK(must(bad.stop())[0].reason == "on_stop: cannot let go");
  CHECK(must(bad.wait_for_failure(in_time)).status.kind() == Status::Kind::failed);
}

TEST_CASE(
    "actors: spec 7.3: one that is stuck in a handler past the grace has failed, and says so; the "
    "others and the proc go on") {
  Actors actors("host=1", "gpu=1", {"one-thread"});
  auto stuck = actors.spawn("counter", "stuck", "0");
  auto other = actors.spawn("counter", "other", "5");
  CHECK(stuck.send("sleep", "60000").has_value());
  REQUIRE(actors.says(0, "sleeps"));
  // There is one thread, and it is taken: after a second there is another one.
  CHECK(values(must(other.call(7, "", in_time))) == Texts{"5"});
  const auto begin = std::chrono::steady_clock::now();
  const auto report = must(stuck.stop({.reason = "enough", .grace = 200ms}))[0];
  CHECK(std::chrono::steady_clock::now() - begin < in_time);
  CHECK(report.status.kind() == Status::Kind::failed);
  CHECK(report.message == "sleep");
  CHECK(report.reason.find("stuck for ") == 0);
  CHECK(report.reason.find(
            "past the end of the grace of its stop (enough); a thread cannot be ended") !=
        std::string::npos);
  CHECK(must(stuck.wait_for_failure(in_time)).rank == 0);
  CHECK(values(must(other.call("add", "1", in_time))) == Texts{"6"});
  // The process does not wait for that thread.
  const auto outcome = must(actors.procs->stop({.reason = "the end"}));
  CHECK(outcome.ranks[0].state == ProcState::stopped);
  CHECK(outcome.ranks[0].step == StopStep::asked);
  CHECK(actors.says(0, "on_stop of 0 at 6: its proc stops: the end"));
}

TEST_CASE(
    "actors: spec 7.2: a proc that dies while its actor is made is an error with its exit report; "
    "the others are stopped") {
  Actors actors("host=1", "gpu=3");
  const auto broken = actors.procs->spawn_actors("dies", "dies", "");
  REQUIRE_FALSE(broken.has_value());
  INFO(broken.error().to_string());
  CHECK(broken.error().code() == ErrorCode::actor_spawn_error);
  CHECK(broken.error().detail().find("1 of 3 were not made: rank 1: ") != std::string::npos);
  CHECK(broken.error().detail().find("SIGKILL") != std::string::npos);
  CHECK(wait_until([&] { return actors.heard.failures().size() == 1; }, in_time));
  // On what is left nothing can be made any more, unless one says so.
  CHECK(actors.procs->spawn_actors("counter", "all", "0")
            .error()
            .detail()
            .find("its proc has ended: rank 1 ") != std::string::npos);
  auto two = must(actors.procs->spawn_actors(
      "counter", "two", "0", {.region = must(actors.procs->ref().range("gpu", 0, 3, 2)).region()}));
  CHECK(two.size() == 2);
  const auto where = must(two.call("where", "", in_time));
  CHECK(where[1].value() == "1 " + must(actors.procs->ref().proc_at(2)).to_string() + ",two[0]");
}

TEST_CASE(
    "actors: spec 7.4: when a whole proc dies its exit report is the cause, told once; slices "
    "beside it stay usable") {
  Actors actors("host=2", "gpu=2");
  auto tally = actors.spawn("counter", "tally", "0");
  CHECK(must(tally.call("throw", "first", 0ms)).size() == 4);  // nobody waits: maybe nobody hears
  auto good = actors.spawn("counter", "good", "3");
  auto waits = std::async(std::launch::async, [&] {
    return must(must(must(good.at("host", 1)).at("gpu", 1)).call("sleep", "40000", 60s));
  });
  REQUIRE(actors.says(3, "sleeps"));
  const auto begin = std::chrono::steady_clock::now();
  ::kill(actors.pid(3), SIGKILL);
  const auto failure = must(good.wait_for_failure(in_time));
  CHECK(failure.rank == 3);
  REQUIRE(failure.proc.has_value());
  CHECK(failure.proc->signal == SIGKILL);
  INFO(failure.describe());
  CHECK(failure.describe().find("its proc has ended: rank 3 (host=1,gpu=1 on ") !=
        std::string::npos);
  CHECK(values(must(must(good.at("gpu", 0)).call(7, "", in_time))) == Texts{"3", "3"});
  const auto mixed = must(must(good.at("host", 1)).call(7, "", in_time));
  CHECK(mixed[1].error().code() == ErrorCode::no_such_proc);
  CHECK(mixed[1].error().detail().find("killed by SIGKILL") != std::string::npos);
  const auto states = must(good.states(in_time));
  CHECK(states[3].proc.has_value());
  CHECK(states[3].status.kind() == Status::Kind::failed);
  // A caller that waits for a dead actor hears of its end, and does not wait for the deadline.
  const auto waited = waits.get();
  CHECK(waited[0].error().code() == ErrorCode::fate_unknown);
  CHECK(waited[0].error().detail().find("killed by SIGKILL") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  ::kill(actors.pid(2), SIGKILL);
  const auto ended = must(good.stop());
  CHECK(ended[0].status == Status::Kind::stopped);
  CHECK(ended[3].status.kind() == Status::Kind::failed);
  CHECK(wait_until([&] { return actors.heard.failures().size() == 2; }, in_time));
  int of_good = 0;
  for (const auto& told : actors.heard_failures())
    of_good += told.actor.find(",good[0]") == std::string::npos ? 0 : 1;
  CHECK(of_good == 2);
}

TEST_CASE("actors: a program ends with its actors stopped, whoever ends it") {
  Actors actors("host=1", "gpu=2", {"main"});
  auto tally = actors.spawn("counter", "tally", "1");
  must(actors.procs->stop({.reason = "the end", .ranks = {{0, 1}}}));
  CHECK(actors.says(0, "on_stop of 0 at 1: its proc ends\ndestroyed"));
  // One that calls exit() itself, from a handler.
  CHECK(must(tally.call("exit", "33", in_time)).size() == 2);
  CHECK(wait_until([&] { return actors.heard.failures().size() == 1; }, in_time));
  CHECK(actors.heard.failures()[0].exit_code == 33);
  CHECK(
      wait_until([&] { return tally.known()[1].status.kind() == Status::Kind::failed; }, in_time));
  CHECK(tally.known()[0].status == Status::Kind::stopped);
}

}  // namespace meshbus::test::actor_world
