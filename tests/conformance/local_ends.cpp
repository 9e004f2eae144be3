// Spec 5.1, local mode: how its procs end, and what cannot be ended.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <stdexcept>

#include "tests/conformance/local_world.h"

namespace meshbus::test::local_world {

TEST_CASE(
    "spec 5.1, 4.9: local mode: a main() that returns, throws, or never ends without being asked, "
    "is told as it is") {
  auto context = must(Context::create());
  // Opened when all are Ready.
  const auto gate = std::make_shared<Gate>();
  auto hosts = hosts_of(context, {{"three", with_main([gate](Proc& proc) {
                                     if (proc.rank() == 0) return mind(proc);
                                     gate->wait();
                                     return 3;
                                   })},
                                  {"throw", with_main([gate](Proc& proc) -> int {
                                     if (proc.rank() == 0) return mind(proc);
                                     gate->wait();
                                     throw std::runtime_error("no such model");
                                   })},
                                  {"mind", with_main(mind)}});
  Heard heard;
  SUBCASE("with 3") {
    auto mesh = must(hosts.spawn("m", extent("gpu=2"), named("three"), heard.handlers()));
    gate->open();
    const auto outcome = must(mesh.wait_for_failure(in_time));
    REQUIRE(outcome.first_failure.has_value());
    CHECK(outcome.first_failure->rank == 1);
    CHECK(outcome.first_failure->exit_code == 3);
    CHECK(outcome.first_failure->cause == Cause::exited);
    REQUIRE(heard.failures().size() == 1);
    CHECK(heard.failures()[0].reason == "exit 3");
    CHECK(must(mesh.status(in_time))[0].state == ProcState::ready);
    CHECK(must(mesh.stop()).ranks[0].exit_code == 0);
  }
  SUBCASE("by an exception") {
    auto mesh = must(hosts.spawn("m", extent("gpu=2"), named("throw"), heard.handlers()));
    gate->open();
    const auto outcome = must(mesh.wait_for_failure(in_time));
    REQUIRE(outcome.first_failure.has_value());
    CHECK(outcome.first_failure->rank == 1);
    CHECK(outcome.first_failure->signal == SIGABRT);
    CHECK(outcome.first_failure->stderr_tail == "main() ended with an exception: no such model\n");
    must(mesh.stop());
  }
  SUBCASE("by SIGTERM") {
    auto mesh = must(hosts.spawn("m", extent("gpu=2"), named("mind"), heard.handlers()));
    const auto other = mesh.signal({{0, 1}}, SIGUSR1);
    REQUIRE_FALSE(other.has_value());
    CHECK(other.error().code() == ErrorCode::io_error);
    CHECK(other.error().detail().find("it is a thread of its launcher") != std::string::npos);
    REQUIRE(mesh.signal({{1, 2}}, SIGTERM).has_value());
    CHECK(must(mesh.wait_for_failure(in_time)).first_failure->exit_code == 143);
    must(mesh.stop());
  }
  SUBCASE("by SIGKILL: it leaves the bus at once, and is told as killed") {
    auto mesh = must(hosts.spawn("m", extent("gpu=2"), named("mind"), heard.handlers()));
    REQUIRE(mesh.signal({{1, 2}}, SIGKILL).has_value());
    const auto failure = must(mesh.wait_for_failure(in_time)).first_failure;
    REQUIRE(failure.has_value());
    CHECK(failure->rank == 1);
    CHECK(failure->signal == SIGKILL);
    // Its connection is cut: a call that is on its way meanwhile may or may not have been read.
    CHECK(wait_until(
        [&] {
          const auto answer = must(mesh.proc(1)).call(context, Port::echo, "", in_time);
          REQUIRE_FALSE(answer.has_value());
          const bool is_cut = answer.error().code() == ErrorCode::fate_unknown;
          if (!is_cut) CHECK(answer.error().code() == ErrorCode::no_such_proc);
          return !is_cut;
        },
        in_time));
    CHECK(must(must(mesh.proc(0)).call(context, Port::echo, "still here", in_time)) ==
          "still here");
    must(mesh.stop());
  }
  must(hosts.shutdown(in_time));
}

TEST_CASE("spec 5.1, 4.6: local mode: what cannot be ended is said, and goes on until it returns") {
  const auto threads = count_threads();
  const auto gate = std::make_shared<Gate>();
  {
    auto context = must(Context::create(quick({{"terminate.grace", "300ms"}})));
    const auto begun = std::make_shared<std::atomic<bool>>(false);
    const auto stuck_main = with_main([gate, begun](Proc& proc) {
      if (proc.rank() == 0) return mind(proc);
      *begun = true;
      gate->wait();
      return 0;
    });
    auto stuck_others = serve();
    stuck_others.on(Port::die, [gate](Proc&, const Incoming&) {
      gate->wait();
      return "free";
    });
    stuck_others.actor_type(
        "stuck", [gate](ActorContext&, std::string_view) { return std::make_unique<Stuck>(gate); });
    auto hosts = hosts_of(context, {{"main", stuck_main}, {"others", stuck_others}});
    Heard heard;
    auto by_main = must(hosts.spawn("by_main", extent("gpu=2"), named("main"), heard.handlers()));
    auto by_handler =
        must(hosts.spawn("by_handler", extent("gpu=2"), named("others"), heard.handlers()));
    auto by_actor =
        must(hosts.spawn("by_actor", extent("gpu=2"), named("others"), heard.handlers()));
    auto actors = must(by_actor.spawn_actors(
        "stuck", "stuck", "",
        {.region = {}, .deadline = {}, .on_failure = [](const ActorReport&) {}}));
    REQUIRE(must(by_handler.proc(1)).send(context, Port::die, "").has_value());
    // What comes behind it waits for it.
    CHECK(must(by_handler.proc(1)).call(context, Port::echo, "", 100ms).error().code() ==
          ErrorCode::timeout);
    CHECK(must(must(actors.at("gpu", 1)).call("stick", "", 100ms))[0].error().code() ==
          ErrorCode::timeout);
    CHECK(wait_until([&] { return begun->load(); }, in_time));
    for (auto* mesh : {&by_main, &by_handler, &by_actor}) mesh->request_stop();
    for (auto* mesh : {&by_main, &by_handler, &by_actor}) {
      const auto outcome = must(mesh->wait(in_time));
      CHECK(outcome.ranks[0].state == ProcState::stopped);
      CHECK(outcome.ranks[1].state == ProcState::failed);
      CHECK(outcome.ranks[1].cause == Cause::unkillable);
      INFO(outcome.ranks[1].reason);
      CHECK(mentions(outcome.ranks[1].reason, "a thread of this process"));
      CHECK(must(mesh->proc(1)).call(context, Port::echo, "", in_time).error().code() ==
            ErrorCode::no_such_proc);
    }
    // The shutdown waits for them, as long as it may.
    SUBCASE("they return in the end") {
      gate->open();
      CHECK(must(hosts.shutdown(in_time)).hosts == 1);
    }
    SUBCASE("they do not") {
      const auto shut = hosts.shutdown(1s);
      REQUIRE_FALSE(shut.has_value());
      INFO(shut.error().to_string());
      CHECK(shut.error().code() == ErrorCode::stop_error);
      CHECK(mentions(shut.error().detail(), "3 of its procs have not ended"));
    }
  }
  gate->open();
  CHECK(wait_until([&] { return count_threads() == threads; }, in_time));
}

TEST_CASE("spec 5.1: local mode: a process exits when it wants to, whatever runs in it") {
  const auto ended = run({bin("meshbus_conformance_tests"), "exit-with-local-procs"}, in_time);
  INFO(ended.out, ended.err);
  CHECK(ended.status == ExitStatus::exited(7));
  CHECK(mentions(ended.out, "4 are ready\n"));
}

TEST_CASE(
    "spec 5.1: local mode: a main() that does not ask whether it is to stop is off the bus at "
    "once, and ends when it returns") {
  const auto gate = std::make_shared<Gate>();
  auto context = must(Context::create(quick({{"terminate.grace", "20s"}})));
  std::promise<void> begun;
  std::promise<ErrorCode> seen;
  auto hosts = hosts_of(
      context, {{"deaf", with_main([&](Proc& proc) {
                   begun.set_value();
                   gate->wait();
                   seen.set_value(proc.call(proc.rank(), Port::echo, "", in_time).error().code());
                   return 5;
                 })}});
  Heard heard;
  auto mesh = must(hosts.spawn("m", extent("gpu=1"), named("deaf"), heard.handlers()));
  REQUIRE(begun.get_future().wait_for(in_time) == std::future_status::ready);
  mesh.request_stop();
  const auto is_off = [&] {
    const auto answer = must(mesh.proc(0)).call(context, Port::echo, "", 100ms);
    return !answer && answer.error().code() == ErrorCode::no_such_proc;
  };
  CHECK(wait_until(is_off, 10s));
  CHECK(must(mesh.status(in_time))[0].state == ProcState::stopping);
  gate->open();
  CHECK(seen.get_future().get() == ErrorCode::fate_unknown);
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.ranks[0].state == ProcState::stopped);
  CHECK(heard.failures().empty());
  must(hosts.shutdown(in_time));
}

}  // namespace meshbus::test::local_world

int meshbus::test::exit_with_local_procs() {
  using namespace local_world;
  static auto context = must(Context::create());
  static auto hosts = hosts_of(context, {{"mind", with_main([](Proc& proc) {
                                            if (proc.rank() != 0) return mind(proc);
                                            for (;;) ::pause();
                                          })}});
  static auto mesh = must(hosts.spawn("m", extent("gpu=4"), named("mind")));
  std::printf("%s are ready\n", std::to_string(mesh.size()).c_str());
  std::fflush(stdout);
  std::exit(7);
}
