// Settings of live procs, read and changed by message (spec 6.5, 11.2).
#include <csignal>

#include "tests/support/wait.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

std::string setting_of(const Result<std::vector<ProcSetting>>& settings, std::string_view key) {
  if (!settings) return settings.error().to_string();
  for (const auto& one : *settings) {
    if (one.key == key) return one.value + " " + one.source;
  }
  return "not there";
}

}  // namespace

TEST_CASE("client: spec 9.2: message.limit bounds the bodies of a launcher") {
  auto context = must(Context::create(quick({{"message.limit", "1KiB"}})));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "serve"}};
  auto mesh = must(hosts.spawn("m", extent("gpu=1"), spec, heard.handlers()));
  const auto proc = must(mesh.proc(0));
  CHECK(must(proc.call(context, 1, std::string(1024, 'x'), in_time)).size() == 1024);
  const std::string body(1025, 'x');
  const auto check = [](const Error& error, const std::string& words) {
    CHECK(error.code() == ErrorCode::too_large);
    CHECK(error.detail().find(words) != std::string::npos);
  };
  check(proc.call(context, 1, body, in_time).error(), "a call of 1025 bytes; the limit is 1024");
  // By the reactor, and by the way that the first send has found.
  REQUIRE(context.send(must(mesh.ref().proc_at(0)), 1, "small").has_value());
  check(context.send(must(mesh.ref().proc_at(0)), 1, body).error(),
        "a message of 1025 bytes; the limit is 1024");
  check(context.cast(mesh.ref(), 1, body).error(), "a cast of 1025 bytes");
  must(mesh.stop({.grace = 1s}));
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 6.5, 11.2: what live procs go by is read and changed by message, while their "
    "programs compute, and counts at once") {
  auto context = must(Context::create(quick({{"terminate.grace", "1h"}})));
  auto hosts = must(HostMesh::process(context, extent("host=2"), of_this_build()));
  Heard heard;
  // Its main() neither looks for a stop nor ends.
  ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_proc"), "stubborn"}};
  auto mesh = must(hosts.spawn("m", extent("gpu=2"), spec, heard.handlers()));
  const auto at_birth = must(context.settings(mesh.ref(), in_time));
  REQUIRE(at_birth.size() == 4);
  for (const auto& one : at_birth) {
    CHECK(setting_of(one, "terminate.grace") == "1h launcher");
    CHECK(setting_of(one, "session.away") == "10s default");
    CHECK(setting_of(one, "log.level") == "warn default");
  }
  const auto half = must(mesh.ref().at("host", 1));
  const auto changed = must(context.change_settings(
      half, {{"terminate.grace", "100ms"}, {"log.level", "debug"}}, in_time));
  REQUIRE(changed.size() == 2);
  CHECK(setting_of(changed[1], "terminate.grace") == "100ms runtime");
  const auto now = must(context.settings(mesh.ref(), in_time));
  CHECK(setting_of(now[0], "terminate.grace") == "1h launcher");
  CHECK(setting_of(now[3], "log.level") == "debug runtime");
  // Answers are bodies, too.
  const auto proc = must(mesh.proc(0));
  CHECK(must(proc.call(context, 1, std::string(2000, 'x'), in_time)).size() == 2000);
  REQUIRE(must(context.change_settings(mesh.ref(), {{"message.limit", "1KiB"}}, in_time))[0]);
  const auto large = proc.call(context, 1, std::string(2000, 'x'), in_time);
  REQUIRE_FALSE(large.has_value());
  CHECK(large.error().code() == ErrorCode::too_large);
  CHECK(large.error().detail().find("the answer: a body of 2000 bytes; the limit is 1024") !=
        std::string::npos);
  // With the new setting the grace of an hour is now 100 ms.
  REQUIRE(::kill(static_cast<pid_t>(mesh.known().ranks[2].pid), SIGTERM) == 0);
  const auto failure = must(mesh.wait_for_failure(in_time)).first_failure.value();
  CHECK(failure.rank == 2);
  CHECK(failure.exit_code == 143);

  const auto refused =
      must(context.change_settings(mesh.ref(), {{"log.level", "info"}, {"lease", "1s"}}, in_time));
  CHECK(setting_of(refused[3], "")
            .find("configuration_error: a proc goes by terminate.grace, session.away, "
                  "handler.stuck, message.limit, log.level while it runs, and not by 'lease'") !=
        std::string::npos);
  CHECK(refused[2].error().code() == ErrorCode::no_such_proc);
  CHECK(setting_of(must(context.settings(mesh.ref(), in_time))[3], "log.level") == "debug runtime");
  must(mesh.stop({.grace = 100ms}));
  must(hosts.shutdown(in_time));
}

TEST_CASE(
    "client: spec 4.4, 6.5: a proc that is told to wait less for its agent ends sooner without "
    "it") {
  auto context = must(Context::create(quick({{"heartbeat", "200ms"}, {"session.away", "1h"}})));
  StandingHost standing;
  auto hosts =
      must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(standing.address()))}));
  Heard heard;
  auto mesh =
      must(hosts.spawn("m", extent("gpu=2"),
                       {.kind = ProcKind::mesh, .command = {bin("echo_proc")}}, heard.handlers()));
  CHECK(setting_of(must(context.settings(mesh.ref(), in_time))[0], "session.away") ==
        "1h launcher");
  const auto first = must(mesh.ref().at("gpu", 0));
  CHECK(setting_of(must(context.change_settings(first, {{"session.away", "300ms"}}, in_time))[0],
                   "session.away") == "300ms runtime");
  const auto agent = standing.roles().agent;
  REQUIRE(::kill(agent, SIGSTOP) == 0);
  const auto pid = static_cast<pid_t>(mesh.known().ranks[0].pid);
  CHECK(wait_until([&] { return is_gone(pid); }, in_time));
  REQUIRE(::kill(agent, SIGCONT) == 0);
  const auto failure = must(mesh.wait_for_failure(in_time)).first_failure.value();
  CHECK(failure.rank == 0);
  CHECK(failure.exit_code == 75);
  CHECK(failure.stderr_tail.find("stayed away for 0.3 s") != std::string::npos);
  must(mesh.stop());
}

TEST_CASE("cli: spec 11.2: config RANKS shows what live procs go by, and --change changes it") {
  const StandingHost standing;
  auto context = must(Context::create());
  auto hosts =
      must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(standing.address()))}));
  Heard heard;
  ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("echo_proc")}};
  spec.environment = {{"MESHBUS_LOG_LEVEL", "error"}};
  auto mesh = must(hosts.spawn("echo", extent("gpu=2"), spec, heard.handlers()));
  const auto config = [&](Words words) {
    words.insert(words.begin(), {"config", "--hosts", standing.address()});
    return run_cli(words);
  };
  auto done = config({"echo[1]", "--change", "terminate.grace=3s"});
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(done.out ==
        "[echo/1 host=0,gpu=1] terminate.grace  3s     runtime\n"
        "[echo/1 host=0,gpu=1] session.away     10s    default\n"
        "[echo/1 host=0,gpu=1] handler.stuck    2m     default\n"
        "[echo/1 host=0,gpu=1] message.limit    1GiB   default\n"
        "[echo/1 host=0,gpu=1] log.level        error  environment\n");
  const auto told = parse_json(config({"echo", "--json"}).out);
  CHECK(told["mesh"] == mesh.ref().mesh().to_string());
  CHECK(told["ranks"][0]["settings"][0] ==
        nlohmann::json({{"key", "terminate.grace"}, {"value", "10s"}, {"source", "default"}}));
  CHECK(told["ranks"][1]["settings"][0]["source"] == "runtime");
  CHECK(told["ranks"][1]["point"] == "host=0/1,gpu=1/2");
  done = config({"echo", "--change", "log.level=debug"});
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(
      done.err.find(
          "[echo/0 host=0,gpu=0] configuration_error: log.level is decided by MESHBUS_LOG_LEVEL") !=
      std::string::npos);
  CHECK(config({"echo", "--change", "log.level"}).status == ExitStatus::exited(2));
  CHECK(config({"--change", "log.level=debug"}).status == ExitStatus::exited(2));
  CHECK(config({"echo", "--set", "lease=5s"}).status == ExitStatus::exited(2));
  // Plain procs have nothing to answer with.
  auto plain =
      must(hosts.spawn("plain", extent("gpu=1"), shell("exec sleep 100"), heard.handlers()));
  CHECK(config({"plain"}).status == ExitStatus::exited(1));
  must(plain.stop());
  must(mesh.stop());
}
