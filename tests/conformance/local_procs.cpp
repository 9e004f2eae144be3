// Spec 5.1, local mode: hosts and procs inside of the launcher's process, with the same messages
// and states.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>

#include "tests/conformance/local_world.h"

namespace meshbus::test::local_world {

TEST_CASE(
    "spec 5.1: local mode: procs of two hosts are Ready, say who they are, call each other, and "
    "are stopped") {
  auto context = must(Context::create());
  auto hosts = hosts_of(context, {{"serve", serve()}}, "host=2");
  Heard heard;
  auto mesh = must(hosts.spawn("m", extent("gpu=4"), named("serve"), heard.handlers()));
  REQUIRE(mesh.size() == 8);
  for (const auto& rank : must(mesh.status(in_time))) {
    CHECK(rank.state == ProcState::ready);
    CHECK(rank.pid == ::getpid());
    CHECK(rank.host == hosts.hosts()[rank.rank / 4]);
  }
  CHECK(to_string(must(hosts.statuses(mesh.ref()))) == "Running=0..8");
  CHECK(must(must(mesh.proc(5)).call(context, Port::echo, "hello", in_time)) == "hello");
  CHECK(texts(must(context.call(must(mesh.ref().at("host", 1)), Port::place, "", in_time))) ==
        Words{"4 at host=1/2,gpu=0/4", "5 at host=1/2,gpu=1/4", "6 at host=1/2,gpu=2/4",
              "7 at host=1/2,gpu=3/4"});
  CHECK(must(must(mesh.proc(0)).call(context, Port::right, "", in_time)) == "01234567");
  for (const auto& rank : must(mesh.stop({.reason = "seen enough"})).ranks) {
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.exit_code == 0);
    CHECK(rank.step == StopStep::asked);
    CHECK(rank.stop_reason == "seen enough");
  }
  CHECK(heard.failures().empty());
  CHECK(wait_until([&] { return heard.ends() == 1; }, in_time));
  CHECK(must(hosts.shutdown(in_time)).hosts == 2);
}

TEST_CASE("spec 5.1, 7: local mode: actors are made, asked, reduced at each host, and fail alone") {
  auto context = must(Context::create());
  auto hosts = hosts_of(context, {{"", serve()}}, "host=2");
  auto mesh = must(hosts.spawn("m", extent("gpu=4"), {.kind = ProcKind::mesh}));
  std::mutex mutex;
  std::vector<std::string> failures;
  auto tally = must(mesh.spawn_actors(
      "counter", "tally", "40",
      {.region = {}, .deadline = {}, .on_failure = [&](const ActorReport& report) {
         const std::lock_guard lock(mutex);
         failures.push_back(report.reason);
       }}));
  CHECK(texts(must(tally.call("add", "2", in_time))) == Words(8, "42"));
  const auto sum = must(tally.accumulate("add", "0", "sum", {.deadline = in_time}));
  REQUIRE(sum.value.has_value());
  CHECK(to_text(*sum.value) == "336");
  CHECK(sum.num_messages == 2);
  CHECK_FALSE(
      must(must(must(tally.at("host", 0)).at("gpu", 3)).call("throw", "", in_time))[0].has_value());
  REQUIRE(tally.wait_for_failure(in_time).has_value());
  {
    const std::lock_guard lock(mutex);
    CHECK(failures == Words{"no checkpoint"});
  }
  CHECK(codes(must(tally.call("add", "1", in_time))) ==
        std::vector{ErrorCode::none, ErrorCode::none, ErrorCode::none, ErrorCode::no_such_port,
                    ErrorCode::none, ErrorCode::none, ErrorCode::none, ErrorCode::none});
  // A call that an actor still has when its proc ends.
  auto keeper = must(mesh.spawn_actors("keeper", "keeper", ""));
  auto kept =
      std::async(std::launch::async, [&] { return must(keeper.call("keep", "", in_time)); });
  CHECK(wait_until([&] { return must(keeper.all().states(in_time))[7].handled == 1; }, in_time));
  must(mesh.stop());
  for (const auto& answer : kept.get()) CHECK_FALSE(answer.has_value());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 5.1, 6.2: local mode: what it cannot start is refused with words that say what to do") {
  auto context = must(Context::create());
  auto hosts = hosts_of(context, {{"serve", serve()}, {"other", serve()}});
  const auto refusal = [&](ProcSpec spec) {
    const auto spawned = hosts.spawn("m", extent("gpu=2"), std::move(spec));
    REQUIRE_FALSE(spawned.has_value());
    CHECK(spawned.error().code() == ErrorCode::proc_creation_error);
    return spawned.error().detail();
  };
  CHECK(mentions(refusal(named("sevre")),
                 "cannot execute 'sevre (of the programs of local mode: other, serve)'"));
  // No command: this very program, which is none of them.
  CHECK(
      mentions(refusal({.kind = ProcKind::mesh}), "(of the programs of local mode: other, serve)"));
  CHECK(mentions(refusal(shell("true")),
                 "set ProcSpec::kind to mesh, or start plain procs on HostMesh::local()"));
  auto spec = named("serve");
  spec.command.emplace_back("--fast");
  CHECK(mentions(refusal(spec), "has no arguments"));
  spec = named("serve");
  spec.settings.nice = 5;
  CHECK(mentions(refusal(spec), "ProcSpec::settings"));
  spec = named("serve");
  spec.input_ranks = {{0, 1}};
  CHECK(mentions(refusal(spec), "ProcSpec::input_ranks"));
  const auto twice = local_procs(
      context, ProcProgram().on(0, [](Proc&, const Incoming&) { return std::string(); }));
  REQUIRE_FALSE(twice.has_value());
  CHECK(twice.error().code() == ErrorCode::configuration_error);
  CHECK(local_procs(context, serve(), {.settings = {{"no.such", "key"}}}).error().code() ==
        ErrorCode::configuration_error);
  {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit few{std::min<rlim_t>(before.rlim_max, 400), before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    const auto many = hosts.spawn("m", extent("gpu=60"), named("serve"));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE_FALSE(many.has_value());
    INFO(many.error().to_string());
    CHECK(mentions(many.error().detail(), "Too many open files"));
  }
  // They are as good as ever.
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), named("other")));
  CHECK(texts(must(context.call(mesh.ref(), Port::echo, "x", in_time))) == Words(2, "x"));
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 5.1, 5.3: local mode: several meshes, new lives, and after the shutdown no thread and no "
    "descriptor is left") {
  const auto threads = count_threads();
  {
    auto context = must(Context::create());
    std::atomic<int> lives{0};
    // A rank that ends before the spawn returns makes it fail.
    Gate spawned;
    auto hosts = hosts_of(context, {{"serve", serve()}, {"twice", with_main([&](Proc& proc) {
                                                           spawned.wait();
                                                           return lives++ == 0 ? 4 : mind(proc);
                                                         })}},
                          "host=3");
    Heard first_heard, second_heard, third_heard;
    auto first =
        must(hosts.spawn("first", extent("gpu=3"), named("serve"), first_heard.handlers()));
    auto second =
        must(hosts.spawn("second", extent("gpu=1"), named("serve"), second_heard.handlers()));
    auto spec = named("twice");
    spec.restart = {.on = RestartPolicy::On::failure};
    spec.restart.delay = 1ms;
    auto third = must(hosts.spawn_n("third", 1, spec, third_heard.handlers()));
    spawned.open();
    CHECK(wait_until([&] { return must(third.status(in_time))[0].restarts == 1; }, in_time));
    // Another launcher looks at the same mesh.
    auto other = must(Context::create());
    auto seen = must(HostMesh::attach(other, "seen", hosts.hosts()));
    CHECK(must(seen.meshes(in_time)).meshes.size() == 3);
    CHECK(must(seen.states(in_time))[1].containment == "none: threads of its launcher");
    CHECK(texts(must(other.call(first.ref(), Port::echo, "x", in_time))) == Words(9, "x"));
    CHECK(must(first.stop()).is_ended());
    CHECK(texts(must(context.call(second.ref(), Port::echo, "y", in_time))) == Words(3, "y"));
    const auto shut = must(hosts.shutdown(in_time));
    CHECK(shut.hosts == 3);
    CHECK(shut.attempted == 4);
    CHECK(shut.failed == 0);
    CHECK(second_heard.failures().empty());
    CHECK_FALSE(HostMesh::attach(other, "gone", hosts.hosts(), {.deadline = 1s}).has_value());
  }
  // Descriptors are counted around every test case.
  CHECK(wait_until([&] { return count_threads() == threads; }, in_time));
}

TEST_CASE("spec 5.1, 4.7: local mode: hosts that are let go end, and their procs with them") {
  const auto threads = count_threads();
  // (A main() is not run any more when a stop comes before it.)
  std::atomic<int> begun{0}, ended{0};
  auto context = std::make_optional(must(Context::create()));
  {
    auto hosts = hosts_of(*context, {{"mind", with_main([&](Proc& proc) {
                                        ++begun;
                                        const int code = mind(proc);
                                        ++ended;
                                        return code;
                                      })}});
    auto mesh = must(hosts.spawn("m", extent("gpu=3"), named("mind")));
    CHECK(wait_until([&] { return begun == 3; }, in_time));
  }
  context.reset();
  CHECK(wait_until([&] { return ended == 3 && count_threads() == threads; }, in_time));
}

TEST_CASE(
    "spec 6.1: local mode: an allocation tells of its hosts, and is the hosts of a mesh of its "
    "own") {
  auto context = must(Context::create());
  std::mutex mutex;
  std::vector<std::string> events;
  auto allocator = local_procs_allocator({{"", serve()}});
  auto made = must(allocator->allocate(
      context, {.extent = extent("host=2"), .on_event = [&](const AllocationEvent& event) {
                  const std::lock_guard lock(mutex);
                  events.push_back(std::to_string(event.rank) + ":" +
                                   std::to_string(static_cast<int>(event.kind)));
                }}));
  CHECK(made->extent() == extent("host=2"));
  CHECK(made->ends_with_launcher());
  const auto heard = [&] {
    const std::lock_guard lock(mutex);
    return sorted(events);
  };
  bool is_taken_over = false;
  SUBCASE("a mesh takes it over") {
    is_taken_over = true;
  }
  SUBCASE("it is stopped as it is") {}
  if (is_taken_over) {
    auto mesh = must(ProcMesh::allocate(context, "m", std::move(made), extent("gpu=2"),
                                        {.kind = ProcKind::mesh}));
    CHECK(texts(must(context.call(mesh.ref(), Port::echo, "x", in_time))) == Words(4, "x"));
    CHECK(must(mesh.stop()).is_ended());
  } else {
    REQUIRE(made->stop(in_time).has_value());
    CHECK(made->wait_end(0, 1ms) == "it was stopped");
    CHECK(made->stop(in_time).has_value());
  }
  CHECK(wait_until([&] { return heard() == Words{"0:0", "0:1", "0:2", "1:0", "1:1", "1:2"}; },
                   in_time));
  CHECK(must(HostMesh::allocate(
                 context, "none",
                 must(allocator->allocate(context, {.extent = extent("host=0"), .on_event = {}}))))
            .hosts()
            .empty());
}

TEST_CASE("spec 5.1, 9: local mode: a controller, and the command line, see what is there") {
  auto context = must(Context::create());
  auto hosts = hosts_of(context, {{"serve", serve()}});
  const auto address = hosts.hosts()[0].to_string();
  Process controller({bin("meshbus-controller"), "--hosts", address});
  auto mesh = must(hosts.spawn("seen", extent("gpu=2"), named("serve")));
  controller.wait_for_output("\"ready\"", in_time);
  const auto listed = run_cli({"ps", "--hosts", address});
  CHECK(listed.status == ExitStatus::exited(0));
  INFO(listed.out, listed.err);
  CHECK(mentions(listed.out, "seen"));
  must(mesh.stop());
  controller.wait_for_output("\"stopped\"", in_time);
  must(hosts.shutdown(in_time));
  controller.send_signal(SIGTERM);
  controller.wait_exit(in_time);
}

}  // namespace meshbus::test::local_world
