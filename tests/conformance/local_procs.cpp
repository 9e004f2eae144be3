// Spec 5.1, local mode: hosts and procs inside of the launcher's process, with the same messages
// and states.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>
#include <stdexcept>

#include "meshbus/actor.h"
#include "meshbus/local.h"
#include "tests/conformance/procs.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// What a test opens for threads of programs that would else not return.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, in_time, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

struct Counter : Actor {
  Counter(ActorContext&, std::string_view start) : total(std::stoi(std::string(start))) {
    on("add", [this](ActorContext&, const ActorMessage& message) {
      return std::to_string(total += std::stoi(std::string(message.body)));
    });
    on("throw", [](ActorContext&, const ActorMessage&) -> std::string {
      throw std::runtime_error("no checkpoint");
    });
  }
  int total;
};

/// An actor that keeps a call, and never answers it.
struct Keeper : Actor {
  Keeper(ActorContext&, std::string_view) {
    on("keep",
       [this](ActorContext& context, const ActorMessage&) { kept.push_back(context.defer()); });
  }
  std::vector<ActorReply> kept;
};

/// An actor whose handler does not return before the gate is open.
struct Stuck : Actor {
  explicit Stuck(const std::shared_ptr<Gate>& gate) {
    on("stick", [gate](ActorContext&, const ActorMessage&) { gate->wait(); });
  }
};

/// Answers on its ports until it is told to stop.
ProcProgram serve() {
  ProcProgram program;
  program.actor<Counter>("counter").actor<Keeper>("keeper");
  program.on(Port::echo, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.on(Port::place, [](Proc& proc, const Incoming&) {
    return std::to_string(proc.rank()) + " at " + proc.point().to_string();
  });
  // All around the ring, and back with the ranks on the way.
  program.on(Port::right, [](Proc& proc, const Incoming& call) -> Result<std::string> {
    const auto way = std::string(call.body) + std::to_string(proc.rank());
    if (proc.rank() + 1 == proc.world_size()) return way;
    return proc.call(proc.rank() + 1, Port::right, way, in_time);
  });
  return program;
}

ProcProgram with_main(std::function<int(Proc&)> body) {
  return serve().main(std::move(body));
}

/// Waits until it is to stop, as a main() should.
int mind(Proc& proc) {
  return proc.wait_for_stop(in_time) ? 0 : 9;
}

ProcSpec named(const std::string& name) {
  return {.kind = ProcKind::mesh, .command = {name}, .ready_limit = in_time};
}

HostMesh hosts_of(Context& context, LocalPrograms programs, std::string_view hosts = "host=1") {
  return must(local_procs(context, std::move(programs), extent(hosts)));
}

std::size_t count_threads() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

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

int meshbus::test::exit_with_local_procs() {
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
