// Spec 6.4, 6.5 and what the headers promise about forks and threads: ends that are true, settings
// of children, and calls that are refused.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "tests/conformance/procs.h"
#include "tests/support/sanitizer_scale.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

HostAddr address(const StandingHost& host) {
  return must(HostAddr::parse(host.address()));
}

template <typename T>
bool is_refused(const Result<T>& result) {
  return !result && result.error().code() == ErrorCode::refused;
}

}  // namespace

TEST_CASE(
    "spec 6.4: a shutdown that does not reach a host says which, ends the others, and claims "
    "nothing") {
  StandingHost first, second;
  auto context = must(Context::create());
  auto hosts = must(HostMesh::attach(context, "pair", {address(first), address(second)}));
  Heard heard;
  const auto sleep = own_sleep();
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), shell("exec " + sleep), heard.handlers()));
  SUBCASE("it is frozen") {
    ::kill(second.roles().agent, SIGSTOP);
    const auto shut = hosts.shutdown(12s, 500ms);
    ::kill(second.roles().agent, SIGCONT);
    REQUIRE_FALSE(shut.has_value());
    INFO(shut.error().to_string());
    CHECK(shut.error().code() == ErrorCode::stop_error);
    CHECK(shut.error().detail().find("host 1 (" + second.address() + "): ") != std::string::npos);
    CHECK(shut.error().detail().find("host 0 (") == std::string::npos);
    CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(wait_until([&] { return processes_with(sleep).size() <= 2; }, in_time));
    // Asked again it says the same, and does nothing.
    CHECK(hosts.shutdown(in_time).error().to_string() == shut.error().to_string());
  }
  SUBCASE("it is dead") {
    // The agent outlives its procs for a moment, in which it would still answer.
    const auto roles = second.roles();
    ::kill(roles.warden, SIGKILL);
    REQUIRE(wait_until(
        [&] {
          return !second.process().is_running() && is_gone(roles.agent) &&
                 processes_with(sleep).size() == 2;
        },
        in_time));
    const auto shut = hosts.shutdown(12s, 500ms);
    CHECK(first.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(wait_until([&] { return processes_with(sleep).empty(); }, in_time));
    // Nothing listens there any more, which is what a shutdown is for; or it cannot be told, and
    // then it is said.
    if (!shut) {
      INFO(shut.error().to_string());
      CHECK(shut.error().code() == ErrorCode::stop_error);
      CHECK(shut.error().detail().find("host 1 (" + second.address() + "): ") != std::string::npos);
      CHECK(shut.error().detail().find("host 0 (") == std::string::npos);
    } else {
      CHECK(shut->attempted == 2);
    }
  }
}

TEST_CASE(
    "spec 6.5, 11.2: the launcher's settings are the weakest in its children: above the defaults, "
    "below file and environment") {
  const TempDir dir;
  const auto file = dir.write("config", "stop.idle = 55s\nstate.idle = 56s\n");
  auto context = must(Context::create(quick({{"spawn.idle", "71s"},
                                             {"stop.idle", "72s"},
                                             {"state.idle", "73s"},
                                             {"terminate.grace", "100s"},
                                             {"supervision.poll", "900ms"}})));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto spec = self({"main"});
  spec.environment = {{"MESHBUS_CONFIG", file},
                      {"MESHBUS_STATE_IDLE", "44s"},
                      {"MESHBUS_TERMINATE_GRACE", "300ms"}};
  auto mesh = must(hosts.spawn("children", extent("gpu=1"), spec, heard.handlers()));
  const auto proc = must(mesh.proc(0));
  const auto setting = [&](const std::string& key) {
    return must(proc.call(context, Port::setting, key, in_time));
  };
  CHECK(setting("state.idle") == "44s");
  CHECK(setting("stop.idle") == "55s");
  CHECK(setting("spawn.idle") == "71s");
  CHECK(setting("supervision.poll") == "900ms");
  CHECK(setting("lease") == must(context.setting("lease")));
  CHECK(setting("heartbeat") == "5s");
  CHECK(proc.call(context, Port::setting, "no.such.key", in_time)
            .error()
            .to_string()
            .find("no.such.key") != std::string::npos);
  // The bootstrap itself is not there for descendants, the place is.
  CHECK(must(proc.call(context, Port::environ_of, "MESHBUS_BOOTSTRAP", in_time)) == "-");
  CHECK(must(proc.call(context, Port::environ_of, "WORLD_SIZE", in_time)) == "1");
  // The library in the proc itself: it never minds, and would have 100 s if the launcher's setting
  // were the stronger one.
  REQUIRE(mesh.signal({}, SIGTERM).has_value());
  CHECK(must(mesh.wait(in_time)).ranks[0].exit_code == 143);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6: after a fork everything is refused in the child, where it neither hangs nor harms the "
    "parent") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto mesh = std::make_optional(
      must(hosts.spawn("m", extent("gpu=1"), self({"serve"}), heard.handlers())));
  auto actors = std::make_optional(must(mesh->spawn_actors("adder", "adder", "0")));
  auto idle = must(Context::create());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const auto ref = mesh->ref();
    const auto id = *ref.proc_at(0);
    int bad = 0;
    auto expect = [&bad, number = 0](bool is_fine) mutable {
      ++number;
      if (!is_fine && bad == 0) bad = number;
    };
    expect(is_refused(context.call(id, Port::echo, "x", 1s)));
    expect(is_refused(context.send(id, Port::echo, "x")));
    expect(is_refused(context.cast(ref, Port::echo, "x")));
    expect(is_refused(context.call(ref, Port::echo, "x", 1s)));
    expect(is_refused(idle.call(id, Port::echo, "x", 1s)));
    expect(is_refused(HostMesh::process(context, *Extent::parse("host=1"), of_this_build())));
    expect(is_refused(HostMesh::attach(context, "again", hosts.hosts())));
    expect(is_refused(hosts.spawn("n", *Extent::parse("gpu=1"), shell("true"))));
    expect(is_refused(hosts.spawn_n("n", 1, shell("true"))));
    expect(is_refused(hosts.states(1s)));
    expect(is_refused(hosts.meshes(1s)));
    expect(is_refused(hosts.events("", 1s)));
    expect(is_refused(hosts.stop_mesh("m")));
    expect(is_refused(hosts.statuses(ref, 1s)));
    expect(is_refused(hosts.wait_status(ref, Status::Kind::running, {.deadline = 1s, .idle = {}})));
    expect(is_refused(hosts.drain()));
    expect(is_refused(hosts.resume()));
    expect(is_refused(hosts.shutdown(1s)));
    expect(is_refused(mesh->status(1s)));
    expect(is_refused(mesh->wait_status(Status::Kind::running, {.deadline = 1s, .idle = {}})));
    expect(is_refused(mesh->wait(1s)));
    expect(is_refused(mesh->wait_for_failure(1s)));
    expect(is_refused(mesh->stop()));
    expect(is_refused(mesh->signal({}, SIGKILL)));
    expect(is_refused(mesh->write_input(0, "x", 1s)));
    expect(is_refused(mesh->spawn_actors("adder", "more", "0")));
    expect(is_refused(actors->call("add", "1", 1s)));
    expect(is_refused(actors->send("add", "1")));
    expect(is_refused(actors->states(1s)));
    expect(is_refused(actors->wait_for_failure(1s)));
    expect(is_refused(actors->stop()));
    expect(is_refused(ActorView::attach(context, actors->ref())));
    mesh->request_stop();
    // A Context of its own is as good as any. (ThreadSanitizer forbids new threads there.)
    if (!is_tsan) expect(Context::create().has_value());
    // Plain values are as good as ever.
    expect(mesh->size() == 1 && ref.num_ranks() == 1 && context.setting("lease").has_value());
    actors.reset();
    mesh.reset();
    ::_exit(bad);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  INFO("the number of the first that was not refused, or the signal: ", status);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(texts(must(actors->call("add", "1", in_time))) == Words{"1"});
  CHECK(must(mesh->status())[0].state == ProcState::ready);
  must(actors->stop());
  CHECK(must(mesh->stop()).is_ended());
  CHECK(heard.failures().empty());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 7: handlers of procs and actors that would wait for themselves are told, not hung") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), self({"serve"})));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(texts(must(context.call(mesh.ref(), Port::block, "", in_time))) ==
        Words(2, "call would_block, call by id would_block, cast would_block"));
  auto actors = must(mesh.spawn_actors("adder", "adder", "0"));
  CHECK(texts(must(actors.call("block", "", in_time))) ==
        Words(2, "call would_block, cast would_block"));
  CHECK(std::chrono::steady_clock::now() - begin < in_time);
  CHECK(texts(must(actors.call("add", "1", in_time))) == Words(2, "1"));
  must(actors.stop());
  must(mesh.stop());
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 7.6: who waits for an answer of a proc that dies is told of its end, not left to the "
    "deadline") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto mesh = must(hosts.spawn("m", extent("gpu=3"), self({"serve"}), heard.handlers()));
  const auto begin = std::chrono::steady_clock::now();
  const auto one = must(mesh.proc(2)).call(context, Port::die, "", 170s);
  REQUIRE_FALSE(one.has_value());
  INFO(one.error().to_string());
  CHECK(one.error().code() == ErrorCode::fate_unknown);
  CHECK(one.error().detail().find("rank 2 (host=0,gpu=2 on ") != std::string::npos);
  const auto all = must(context.call(must(mesh.ref().range("gpu", 0, 2)), Port::die, "", 170s));
  CHECK(codes(all) == std::vector(2, ErrorCode::fate_unknown));
  CHECK(std::chrono::steady_clock::now() - begin < in_time);
  CHECK(must(mesh.wait(in_time)).is_ended());
  CHECK(heard.failures().size() == 3);
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "spec 6.6: a failure handler may do all that a launcher does: ask, wait, replace the rank, and "
    "stop") {
  auto context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  std::promise<std::string> told;
  std::optional<ProcMesh> mesh, replacement;
  std::optional<ActorMesh> actors;
  Heard quiet;
  Handlers handlers;
  handlers.on_failure = [&](const RankReport& failed) {
    std::string text = std::to_string(failed.rank) + ":";
    const auto note = [&text](const std::string& what, const auto& result) {
      text += " " + what + "=" + (result ? "fine" : result.error().to_string());
    };
    note("call", context.call(mesh->ref(), Port::echo, "x", in_time));
    note("failure", mesh->wait_for_failure(in_time));
    note("status", mesh->wait_status(Status::Kind::running, {.deadline = in_time, .idle = {}}));
    note("actors", must(actors->at("gpu", 0)).call("add", "1", in_time));
    auto made = hosts.spawn("again", extent("gpu=1"), self({"serve"}), quiet.handlers());
    note("spawn", made);
    if (made) replacement.emplace(std::move(*made));
    if (replacement)
      note("replacement", context.call(replacement->ref(), Port::echo, "x", in_time));
    note("stop actors", actors->stop());
    note("stop", mesh->stop());
    note("wait", mesh->wait(in_time));
    told.set_value(text);
  };
  mesh.emplace(must(hosts.spawn("m", extent("gpu=2"), self({"serve"}), handlers)));
  actors.emplace(
      must(mesh->spawn_actors("adder", "adder", "0", {.on_failure = [](const ActorReport&) {}})));
  REQUIRE(mesh->signal({{1, 2}}, SIGKILL).has_value());
  auto future = told.get_future();
  REQUIRE(future.wait_for(in_time) == std::future_status::ready);
  CHECK(future.get() ==
        "1: call=fine failure=fine status=fine actors=fine spawn=fine replacement=fine stop "
        "actors=fine stop=fine wait=fine");
  must(replacement->stop());
  must(hosts.shutdown(in_time));
}
