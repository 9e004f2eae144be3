// Controllers in the client library (spec 8.1, 8.2, 8.5; meshbus/controller.h): subscriptions, and
// controllers inside of a launcher.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <optional>

#include "tests/integration/controller/harness.h"
#include "tests/support/wait.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// What a listener was told, for the test's thread to look at.
class Told {
 public:
  std::function<void(const SupervisionEvent&)> handler() {
    return [this](const SupervisionEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    };
  }
  /// But for states on the way: starting, running, stopping.
  std::vector<SupervisionEvent> events() const {
    const std::lock_guard lock(mutex_);
    std::vector<SupervisionEvent> standing;
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(standing),
                 [](const auto& event) {
                   return event.kind != Kind::rank || event.rank->state == ProcState::ready ||
                          event.rank->is_terminal();
                 });
    return standing;
  }
  std::size_t count(Kind kind) const {
    const auto all = events();
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [&](const auto& event) { return event.kind == kind; }));
  }
  /// "0 ready, 1 killed, ended".
  std::string text() const {
    std::string text;
    for (const auto& event : events()) {
      text += text.empty() ? "" : ", ";
      if (event.kind == Kind::rank) {
        text += std::to_string(event.rank->rank) + " " + std::string(to_string(event.rank->state));
      } else {
        text += event.describe();
      }
    }
    return text;
  }
  bool wait(Kind kind, std::size_t many = 1) const {
    return wait_until([&] { return count(kind) >= many; }, in_time);
  }
  /// Until that rank was told to be so.
  bool wait(std::uint64_t rank, ProcState state) const {
    return wait_until(
        [&] {
          const auto all = events();
          return std::any_of(all.begin(), all.end(), [&](const auto& event) {
            return event.kind == Kind::rank && event.rank->rank == rank &&
                   event.rank->state == state;
          });
        },
        in_time);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<SupervisionEvent> events_;
};

using ContextSettings = std::vector<std::pair<std::string, std::string>>;

/// A launcher that made no mesh.
struct Onlooker {
  explicit Onlooker(ContextSettings settings = {})
      : context(must(Context::create(quick(std::move(settings))))) {}
  Subscription listen(std::vector<HostAddr> hosts, SubscribeOptions options = {}) {
    options.deadline = in_time;
    return must(Subscription::open(context, std::move(hosts), std::move(options), told.handler()));
  }
  /// Before the context: the handlers' thread ends with that.
  Told told;
  Context context;
};

}  // namespace

TEST_CASE(
    "controller: spec 8.2: Subscription: a program that owns nothing hears what stands, each end "
    "once with its exit report, and the end") {
  Controlled watched(1, {"supervision.poll=500ms", "supervision.probe=100ms"});
  auto mesh =
      must(watched.hosts->spawn("m", extent("gpu=3"), shell("echo last words >&2; exec sleep 100"),
                                watched.heard.handlers()));
  Onlooker onlooker, some;
  const auto subscription =
      onlooker.listen({watched.home()}, {.mesh = mesh.ref().mesh().to_string()});
  const auto other =
      some.listen({watched.home()}, {.mesh = mesh.ref().mesh().to_string(), .ranks = {{2, 3}}});
  CHECK(subscription.controller().to_string() == watched.home().to_string() + ",controller");
  REQUIRE(onlooker.told.wait(Kind::rank, 3));
  kill_rank(mesh, 1);
  REQUIRE(onlooker.told.wait(1, ProcState::killed));
  must(mesh.stop({.reason = "enough"}));
  REQUIRE(onlooker.told.wait(Kind::ended));
  REQUIRE(some.told.wait(Kind::ended));
  const auto name = mesh.ref().mesh().to_string();
  INFO(onlooker.told.text());
  CHECK(onlooker.told.events().size() == 7);
  CHECK(onlooker.told.text().starts_with("0 ready, 1 ready, 2 ready, 1 killed, "));
  CHECK(onlooker.told.text().ends_with(", " + name + ": ended (Failed)"));
  CHECK(some.told.text() == "2 ready, 2 stopped, " + name + ": ended (Failed)");
  for (const auto& event : onlooker.told.events()) {
    if (event.kind != Kind::rank || !event.rank->is_terminal()) continue;
    CHECK(event.mesh == name);
    CHECK(event.rank->host == watched.home());
    CHECK(event.rank->point == "host=0/1,gpu=" + std::to_string(event.rank->rank) + "/3");
    CHECK(event.rank->stderr_tail == "last words\n");
    CHECK(event.rank->is_failure() == (event.rank->rank == 1));
    if (event.rank->rank != 1) CHECK(event.rank->stop_reason == "enough");
    if (event.rank->rank == 1) CHECK(event.describe() == name + ": " + event.rank->describe());
  }
}

TEST_CASE(
    "controller: spec 8.2: Subscription: two of one program do not take from each other, and "
    "nothing is called when one has gone") {
  Controlled watched(1, {"supervision.poll=500ms", "supervision.probe=100ms"});
  auto mesh = watched.sleepers("gpu=2");
  const auto name = mesh.ref().mesh().to_string();
  Onlooker onlooker;
  Told second;
  auto first = std::optional(onlooker.listen({watched.home()}, {.mesh = name, .ranks = {{0, 1}}}));
  const auto other = must(Subscription::open(onlooker.context, {watched.home()},
                                             {.mesh = name, .ranks = {{1, 2}}}, second.handler()));
  REQUIRE(onlooker.told.wait(0, ProcState::ready));
  REQUIRE(second.wait(1, ProcState::ready));
  first.reset();
  kill_rank(mesh, 0);
  kill_rank(mesh, 1);
  REQUIRE(second.wait(Kind::ended));
  CHECK(onlooker.told.text() == "0 ready");
  CHECK(second.text() == "1 ready, 1 killed, " + name + ": ended (Failed)");
}

TEST_CASE("controller: spec 8.2: Subscription: a handler may end what it is told by") {
  Controlled watched(1, {"supervision.poll=500ms", "supervision.probe=100ms"});
  Onlooker onlooker;
  std::optional<Subscription> own;
  std::mutex mutex;
  std::atomic<int> calls{0};
  {
    const std::lock_guard lock(mutex);
    own = must(
        Subscription::open(onlooker.context, {watched.home()}, {}, [&](const SupervisionEvent&) {
          const std::lock_guard inner(mutex);
          ++calls;
          own.reset();
        }));
  }
  auto mesh = watched.sleepers("gpu=4");
  must(mesh.stop());
  REQUIRE(wait_until([&] { return calls == 1; }, in_time));
  const std::lock_guard lock(mutex);  // the handler has returned
  CHECK(calls == 1);
}

TEST_CASE(
    "controller: spec 8.1, 8.2: Subscription: a controller that is killed and started again is "
    "told as silent and back, and what happened "
    "meanwhile once") {
  Controlled watched(1, {"supervision.poll=500ms", "supervision.probe=100ms"});
  auto mesh = watched.sleepers("gpu=2");
  Onlooker onlooker(
      {{"supervision.probe", "100ms"}, {"supervision.poll", "500ms"}, {"watchdog", "6s"}});
  const auto subscription =
      onlooker.listen({watched.home()}, {.mesh = mesh.ref().mesh().to_string()});
  REQUIRE(onlooker.told.wait(Kind::rank, 2));
  watched.kill();
  REQUIRE(onlooker.told.wait(Kind::controller_silent));
  kill_rank(mesh, 1);
  REQUIRE(onlooker.told.wait(Kind::controller_lost));
  CHECK(onlooker.told.count(Kind::rank) == 2);
  watched.start();
  REQUIRE(onlooker.told.wait(Kind::controller_back));
  REQUIRE(onlooker.told.wait(1, ProcState::killed));
  kill_rank(mesh, 0);
  REQUIRE(onlooker.told.wait(Kind::ended));
  const auto at = watched.home().to_string();
  const auto events = onlooker.told.events();
  INFO(onlooker.told.text());
  REQUIRE(events.size() == 8);
  const auto& silent = events[2];
  CHECK(silent.describe().starts_with("nothing is heard of the controller at " + at +
                                      ": no_such_proc: "));
  CHECK(events[3].describe().starts_with("the controller at " + at + " is taken for lost: "));
  CHECK(events[4].describe() == "the controller at " + at + " is there again");
  CHECK(events[5].rank->rank == 1);
  CHECK(events[6].rank->rank == 0);
  CHECK(onlooker.told.count(Kind::controller_silent) == 1);
}

TEST_CASE(
    "controller: Subscription: with several hosts, silence is told at the host where the "
    "controller was") {
  Controlled watched(2, {"supervision.poll=500ms", "supervision.probe=100ms"});
  Onlooker onlooker({{"supervision.probe", "100ms"}, {"supervision.poll", "500ms"}});
  const auto subscription = onlooker.listen(watched.hosts->hosts());
  CHECK(subscription.controller().host() == watched.home());
  watched.kill();
  REQUIRE(onlooker.told.wait(Kind::controller_silent));
  for (const auto& event : onlooker.told.events()) {
    if (event.kind == Kind::controller_silent) CHECK(event.host == watched.home());
  }
}

TEST_CASE(
    "controller: spec 8.2: Subscription: a launcher whose broker is killed hears once what "
    "happened while it was cut off") {
  Controlled watched(1, {"supervision.poll=500ms", "supervision.probe=100ms"});
  auto mesh = watched.sleepers("gpu=2");
  Onlooker onlooker({{"supervision.probe", "100ms"}, {"supervision.poll", "500ms"}});
  const auto subscription =
      onlooker.listen({watched.home()}, {.mesh = mesh.ref().mesh().to_string()});
  REQUIRE(onlooker.told.wait(Kind::rank, 2));
  REQUIRE(::kill(watched.standing[0].roles().broker, SIGKILL) == 0);
  kill_rank(mesh, 0);
  REQUIRE(onlooker.told.wait(0, ProcState::killed));
  kill_rank(mesh, 1);
  REQUIRE(onlooker.told.wait(Kind::ended));
  INFO(onlooker.told.text());
  CHECK(onlooker.told.count(Kind::rank) == 4);
}

TEST_CASE(
    "controller: spec 8.1: Subscription: a controller is found at whichever of the hosts it is at "
    "home") {
  Controlled watched(2, {"supervision.poll=500ms", "supervision.probe=100ms"});
  auto mesh = watched.sleepers("gpu=1");
  Onlooker onlooker(ContextSettings{{"supervision.probe", "100ms"}});
  const auto subscription = onlooker.listen({watched.hosts->hosts()[1], watched.home()},
                                            {.mesh = mesh.ref().mesh().to_string()});
  CHECK(subscription.controller().host() == watched.home());
  REQUIRE(onlooker.told.wait(Kind::rank, 2));
  must(mesh.stop());
  REQUIRE(onlooker.told.wait(Kind::ended));
}

TEST_CASE("controller: spec 8.2: Subscription: what cannot be subscribed to is refused in words") {
  Controlled watched(1, {});
  watched.kill();
  Onlooker onlooker;
  const auto open = [&](std::vector<HostAddr> hosts, SubscribeOptions options) {
    options.deadline = 300ms;
    auto tried = Subscription::open(onlooker.context, std::move(hosts), std::move(options),
                                    onlooker.told.handler());
    REQUIRE(!tried);
    return tried.error();
  };
  CHECK(open({}, {}).code() == ErrorCode::configuration_error);
  CHECK(open({watched.home()}, {.actor = "tally"}).code() == ErrorCode::configuration_error);
  CHECK(open({watched.home()}, {.ranks = {{0, 1}}}).code() == ErrorCode::configuration_error);
  CHECK(open({watched.home()}, {.mesh = "no name"}).code() == ErrorCode::parse_error);
  const auto absent = open({watched.home()}, {});
  CHECK(absent.code() == ErrorCode::no_such_proc);
  CHECK(absent.detail().find("no controller has answered; at " + watched.home().to_string()) !=
        std::string::npos);
  CHECK(open({must(HostAddr::parse("unix:/nowhere/at/all"))}, {}).code() ==
        ErrorCode::host_unreachable);
  const pid_t copy = ::fork();
  if (copy == 0) {
    const auto tried =
        Subscription::open(onlooker.context, {watched.home()}, {}, onlooker.told.handler());
    ::_exit(!tried && tried.error().code() == ErrorCode::refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(copy, &status, 0) == copy);
  CHECK(status == 0);
}

TEST_CASE(
    "controller: spec 8.1, 8.5: EmbeddedController: a launcher holds one, others hear it, it "
    "answers for meshes, and ends them in order") {
  StandingHost standing;
  const auto host = must(HostAddr::parse(standing.address()));
  Onlooker holder(
      {{"supervision.poll", "500ms"}, {"supervision.probe", "100ms"}, {"terminate.grace", "2s"}});
  auto controller = must(EmbeddedController::start(
      holder.context, {.hosts = {host}, .on_event = holder.told.handler(), .deadline = in_time}));
  CHECK(controller.id().to_string() == standing.address() + ",controller");
  {
    // There is one at a host.
    Onlooker second;
    const auto refused =
        EmbeddedController::start(second.context, {.hosts = {host}, .deadline = in_time});
    REQUIRE(!refused);
    CHECK(refused.error().code() == ErrorCode::identity_mismatch);
    CHECK(refused.error().detail().find(controller.id().to_string()) != std::string::npos);
  }
  Onlooker onlooker;
  const auto subscription = onlooker.listen({host});
  std::string name;
  {
    auto launcher = must(Context::create());
    auto hosts = must(HostMesh::attach(launcher, "hosts", {host}));
    Heard heard;
    auto mesh = must(hosts.spawn("m", extent("gpu=2"), shell("exec sleep 100"), heard.handlers()));
    name = mesh.ref().mesh().to_string();
    REQUIRE(mesh.handover(controller.id(), {.deadline = in_time}));
  }
  // Its launcher is gone, and it lives.
  REQUIRE(onlooker.told.wait(Kind::rank, 2));
  REQUIRE(holder.told.wait(Kind::rank, 2));
  REQUIRE(controller.end("the site closes"));
  REQUIRE(controller.end());
  REQUIRE(onlooker.told.wait(Kind::ended));
  REQUIRE(onlooker.told.wait(Kind::controller_silent));
  INFO(onlooker.told.text());
  INFO(holder.told.text());
  for (const auto* told : {&onlooker.told, &holder.told}) {
    std::size_t ends = 0;
    for (const auto& event : told->events()) {
      if (event.kind != Kind::rank || !event.rank->is_terminal()) continue;
      ++ends;
      CHECK(event.mesh == name);
      CHECK(event.rank->stop_reason == "the site closes");
      CHECK(event.rank->stopped_by == controller.id().to_string());
    }
    CHECK(ends == 2);
  }
}

TEST_CASE(
    "controller: spec 8.5: EmbeddedController: one that goes without an end leaves its meshes to "
    "their leases, and another takes its "
    "place") {
  StandingHost standing;
  const auto host = must(HostAddr::parse(standing.address()));
  auto launcher = must(Context::create());
  auto hosts = must(HostMesh::attach(launcher, "hosts", {host}));
  Heard heard;
  auto mesh = must(hosts.spawn("m", extent("gpu=1"), shell("exec sleep 100"), heard.handlers()));
  Onlooker holder({{"supervision.poll", "300ms"}, {"supervision.probe", "100ms"}, {"lease", "3s"}});
  auto controller = std::optional(
      must(EmbeddedController::start(holder.context, {.hosts = {host}, .deadline = in_time})));
  REQUIRE(mesh.handover(controller->id(), {.deadline = in_time}));
  controller.reset();
  // The same name, another life: it finds its mesh at the host, and keeps it alive for longer than
  // the lease.
  controller = must(EmbeddedController::start(
      holder.context, {.hosts = {host}, .on_event = holder.told.handler(), .deadline = in_time}));
  REQUIRE(holder.told.wait(0, ProcState::ready));
  const auto start = std::chrono::steady_clock::now();
  CHECK(wait_until([&] { return std::chrono::steady_clock::now() - start > 4s; }, in_time));
  CHECK(must(hosts.meshes()).meshes[0].ranks[0].state == ProcState::ready);
  controller.reset();
  REQUIRE(
      wait_until([&] { return must(hosts.meshes()).meshes[0].ranks[0].is_terminal(); }, in_time));
  CHECK(must(hosts.meshes()).meshes[0].ranks[0].state == ProcState::stopped);
}

TEST_CASE(
    "controller: EmbeddedController: a second one goes to the next host, and says of none that it "
    "does not answer") {
  std::vector<StandingHost> standing(2);
  std::vector<HostAddr> hosts;
  for (const auto& host : standing) hosts.push_back(must(HostAddr::parse(host.address())));
  Onlooker first;
  Onlooker second({{"supervision.poll", "300ms"}, {"supervision.probe", "100ms"}});
  const auto at_first =
      must(EmbeddedController::start(first.context, {.hosts = {hosts[0]}, .deadline = in_time}));
  const auto at_second = must(EmbeddedController::start(
      second.context, {.hosts = hosts, .on_event = second.told.handler(), .deadline = in_time}));
  CHECK(at_second.id().host() == hosts[1]);
  INFO(second.told.text());
  CHECK(second.told.count(Kind::host_unreachable) == 0);
}

TEST_CASE("controller: EmbeddedController: where it cannot be is said") {
  Onlooker holder;
  const auto start = [&](std::vector<HostAddr> hosts) {
    auto tried =
        EmbeddedController::start(holder.context, {.hosts = std::move(hosts), .deadline = 300ms});
    REQUIRE(!tried);
    return tried.error();
  };
  CHECK(start({}).code() == ErrorCode::configuration_error);
  const auto away = start({must(HostAddr::parse("unix:/nowhere/at/all"))});
  CHECK(away.code() == ErrorCode::host_unreachable);
  CHECK(away.detail().find("no broker answers at unix:/nowhere/at/all") != std::string::npos);
}
