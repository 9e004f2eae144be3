// What a launcher is told when its own handlers, messages or objects are at fault.
#include <atomic>
#include <future>
#include <stdexcept>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

TEST_CASE(
    "client: spec 6.7: an exception of a handler ends nothing, and the handlers after it are "
    "called") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  std::atomic<int> states{0};
  std::atomic<int> failures{0};
  std::atomic<int> ends{0};
  Handlers handlers;
  handlers.on_state = [&](const RankReport&) {
    ++states;
    throw std::runtime_error("thrown by on_state");
  };
  handlers.on_failure = [&](const RankReport& rank) {
    CHECK(rank.exit_code == 3);
    ++failures;
    throw 3;
  };
  handlers.on_end = [&](const MeshOutcome&) { ++ends; };
  auto spec = shell("exit 3");
  spec.wait_ready = false;
  auto mesh = must(hosts.spawn("thrower", extent("gpu=2"), spec, std::move(handlers)));
  const auto outcome = must(mesh.wait(in_time));
  CHECK(outcome.exit_code() == 3);
  CHECK(failures == 2);
  CHECK(states >= 4);
  CHECK(ends == 1);
}

TEST_CASE(
    "client: spec 9.1: a message that comes back is told with its receiver, port and reason, and "
    "counted") {
  std::promise<ReturnedMessage> told;
  std::atomic<int> calls{0};
  auto options = quick();
  options.on_returned = [&](const ReturnedMessage& message) {
    if (++calls == 1) told.set_value(message);
  };
  auto context = must(Context::create(std::move(options)));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  // A plain proc is no peer of the bus: nothing can be delivered to it.
  Heard heard;
  auto mesh =
      must(hosts.spawn("deaf", extent("gpu=1"), shell("exec " + own_sleep()), heard.handlers()));
  const auto proc = must(mesh.ref().proc_of(0));
  CHECK(context.num_returned() == 0);
  REQUIRE(context.send(proc, 7, "to nobody"));
  auto future = told.get_future();
  REQUIRE(future.wait_for(in_time) == std::future_status::ready);
  const auto message = future.get();
  CHECK(message.to == proc);
  CHECK(message.port == 7);
  CHECK_FALSE(message.is_cast);
  CHECK(message.error.code() == ErrorCode::no_such_proc);
  CHECK(context.num_returned() == 1);
  REQUIRE(context.cast(mesh.ref(), 8, "to nobody either"));
  CHECK(wait_until([&] { return context.num_returned() == 2; }, in_time));
}

TEST_CASE("client: calls to a plain mesh are refused at once, with what to do") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto mesh =
      must(hosts.spawn("deaf", extent("gpu=2"), shell("exec " + own_sleep()), heard.handlers()));
  const std::string words = " are plain, and plain procs take no calls; spawn programs that use";
  const auto is_refused = [&](const Error& error) {
    INFO(error.to_string());
    CHECK(error.code() == ErrorCode::no_such_port);
    CHECK(error.detail().find("the procs of " + mesh.ref().mesh().to_string() + words) !=
          std::string::npos);
  };
  const auto proc = must(mesh.ref().proc_of(1));
  is_refused(context.call(proc, 7, "question", 60s).error());
  for (const auto& answer : must(context.call(mesh.ref(), 7, "question", 60s)))
    is_refused(answer.error());
  std::promise<Error> told;
  context.call_async(proc, 7, "question", {.deadline = 60s},
                     [&](const Result<std::string>& answer) { told.set_value(answer.error()); });
  is_refused(told.get_future().get());
}

TEST_CASE("client: an object that was moved from answers with an error") {
  auto context = must(Context::create(quick()));
  auto hosts = must(HostMesh::process(context, extent("host=1"), of_this_build()));
  Heard heard;
  auto mesh =
      must(hosts.spawn("moved", extent("gpu=1"), shell("exec " + own_sleep()), heard.handlers()));
  const auto proc = must(mesh.ref().proc_of(0));
  auto mesh_now = std::move(mesh);
  auto hosts_now = std::move(hosts);
  const auto code_of = [](const auto& result) {
    return result ? ErrorCode::none : result.error().code();
  };
  // NOLINTBEGIN(bugprone-use-after-move): that is what this is about.
  CHECK(code_of(mesh.stop()) == ErrorCode::refused);
  CHECK(code_of(mesh.wait(1ms)) == ErrorCode::refused);
  CHECK(code_of(mesh.status()) == ErrorCode::refused);
  CHECK(code_of(mesh.signal({}, 15)) == ErrorCode::refused);
  CHECK(code_of(mesh.write_input(0, "x")) == ErrorCode::refused);
  CHECK(mesh.known().ranks.empty());
  CHECK(mesh.size() == 0);
  mesh.request_stop();
  CHECK(code_of(hosts.states()) == ErrorCode::refused);
  CHECK(code_of(hosts.shutdown()) == ErrorCode::refused);
  CHECK(code_of(hosts.spawn("none", extent("gpu=1"), shell("true"))) == ErrorCode::refused);
  CHECK(code_of(hosts.spawn_n("none", 1, shell("true"))) == ErrorCode::refused);
  CHECK(hosts.hosts().empty());
  const auto context_now = std::move(context);
  CHECK(code_of(context.send(proc, 1, "x")) == ErrorCode::refused);
  CHECK(code_of(context.setting("lease")) == ErrorCode::refused);
  // NOLINTEND(bugprone-use-after-move)
  CHECK(must(mesh_now.stop()).is_ended());
}
