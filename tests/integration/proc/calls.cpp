// Mesh procs over a real broker: bootstrap, calls, messages.
#include <doctest/doctest.h>

#include <csignal>
#include <string>

#include "common/wire/frame.h"
#include "tests/integration/proc/harness.h"
#include "tests/support/environment.h"
#include "wire/actors_generated.h"

using namespace meshbus;
using namespace meshbus::test;

TEST_CASE("proc: is ready, answers calls, and says who it is") {
  ProcHarness harness({.ranks = 3});
  harness.start(2, {"serve"});
  harness.wait_ready(2);
  CHECK(harness.call(2, 1, "hello").value() == "hello");
  CHECK(harness.call(2, 1, "").value().empty());
  const std::string large(500'000, 'x');
  CHECK(harness.call(2, 1, large).value() == large);
  // The handlers' thread blocks no signal: what it executes would inherit that.
  CHECK(harness.call(2, 6, "").value() == "2/3 at gpu=2/3 variable unset mask empty");
}

TEST_CASE(
    "proc: what a handler does wrong is an error at the caller, with its text, and the proc lives "
    "on") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  const auto failed = harness.call(0, 2, "no such word");
  CHECK(failed.error().to_string() == "call_error: not_exist: no such word");
  CHECK(harness.call(0, 3, "boom").error().to_string() == "call_error: boom");
  CHECK(harness.call(0, 4, "").error().to_string() ==
        "call_error: an exception that is no std::exception");
  const auto unknown = harness.call(0, 4711, "");
  CHECK(unknown.error().code() == ErrorCode::no_such_port);
  CHECK(unknown.error().detail() ==
        harness.mesh().proc_at(0)->to_string() + " has no handler for port 4711");
  CHECK(harness.call(0, 1, "still here").value() == "still here");
}

TEST_CASE("proc: ranks call each other by computed addresses, and know who calls") {
  ProcHarness harness({.ranks = 2});
  harness.start(0, {"serve"});
  harness.start(1, {"serve"});
  harness.wait_ready(0);
  harness.wait_ready(1);
  CHECK(harness.call(0, 9, "hi").value() == "from 0: hi");
  CHECK(harness.call(1, 11, "").value() == "rank 1");
  CHECK(harness.call(1, 10, "").value() == "stranger");
}

TEST_CASE("proc: threads that call at once get their own answers, and handlers run meanwhile") {
  ProcHarness harness({.ranks = 2});
  harness.start(1, {"serve"});
  harness.wait_ready(1);
  harness.start(0, {"callers"});
  harness.wait_ready(0);
  int answered = 0;
  // While threads call, and while main() waits for an answer that takes two seconds.
  harness.wait("answers of a proc that calls", [&] {
    const auto text = std::to_string(answered);
    REQUIRE(harness.call(0, 1, text).value() == text);
    return ++answered >= 20 &&
           harness.process(0).err().find("wrong answers: 0\n") != std::string::npos;
  });
  for (int i = 0; i < 20; ++i) REQUIRE(harness.call(0, 1, "meanwhile").value() == "meanwhile");
  CHECK(harness.process(0).is_running());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
}

TEST_CASE("proc: calls that cannot be are refused at once and in words") {
  ProcHarness harness({.config = {{"message.limit", "1MiB"}}});
  harness.start(0, {"ask"});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
  const std::string text = harness.process(0).err();
  const std::string no_rank = "out_of_range: mesh trainers-13Se1Maqzryj: no rank 99 of 1\n";
  CAPTURE(text);
  CHECK(text.find("rank: " + no_rank) != std::string::npos);
  CHECK(text.find("later: " + no_rank) != std::string::npos);
  CHECK(text.find("send: " + no_rank) != std::string::npos);
  CHECK(text.find("a body of 2000000 bytes; the limit is 1048576") != std::string::npos);
  CHECK(text.find("message: too_large: a body of 2000000 bytes; the limit is 1048576 (setting "
                  "message.limit)") != std::string::npos);
  CHECK(text.find("deadline: timeout: call to ") != std::string::npos);
  CHECK(text.find("self: myself\n") != std::string::npos);
}

TEST_CASE("proc: a handler that calls its own proc is told, not hung") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  CHECK(harness.call(0, 8, "").error().detail().find("would_block") != std::string::npos);
}

TEST_CASE("proc: a child of fork is not the proc") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  const auto told = harness.call(0, 7, "");
  INFO((told ? std::string() : told.error().to_string()));
  REQUIRE(told.has_value());
  CHECK(*told == "refused refused, ended by TERM");
  CHECK(harness.call(0, 1, "and the proc lives on").value() == "and the proc lives on");
}

TEST_CASE(
    "proc: messages that were sent leave before the process exits, and so does what it printed") {
  ProcHarness harness;
  harness.start(0, {"flood", harness.launcher(), "5000", "100"});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
  CHECK(harness.process(0).out() == "sent");
  harness.wait("all messages", [&] { return harness.messages.size() == 5000; });
  for (int i = 0; i < 5000; ++i)
    REQUIRE(harness.messages[static_cast<std::size_t>(i)].starts_with(std::to_string(i) + " "));
}

TEST_CASE(
    "proc: a main that sends without a pause keeps neither its handlers nor its agent waiting") {
  ProcHarness harness({.ranks = 2});
  harness.start(1, {"serve"});
  harness.wait_ready(1);
  harness.start(0, {"pour"});
  harness.wait_output(0, "main");
  for (int i = 0; i < 20; ++i) {
    const auto text = std::to_string(i);
    REQUIRE(harness.call(0, 1, text).value() == text);
  }
  REQUIRE(harness.stop(0, 7, std::chrono::seconds(10)).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(7));
  CHECK(harness.call(1, 1, "still here").value() == "still here");
}

TEST_CASE("proc: a shared body is sent as it lies, arrives whole, and is let go when it has left") {
  ProcHarness harness({.ranks = 2});
  harness.start(0, {"serve"});
  harness.start(1, {"serve"});
  harness.wait_ready(0);
  harness.wait_ready(1);
  std::string expected;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kInlineLimit, kInlineLimit + 1,
                                 kBodyLimit, kBodyLimit + 1}) {
    CHECK(harness.call(0, 18, std::to_string(size)).value() == "let go");
    for (int i = 0; i < 3; ++i) expected += std::to_string(size) + "+ ";
  }
  CHECK(harness.call(1, 19, "?").value() == expected);
}

TEST_CASE("proc: what waits to leave is bounded, and who sends more is told") {
  ProcHarness harness;
  harness.start(0, {"fill", harness.launcher()});
  harness.wait_output(0, "main\n");
  harness.stop_broker();
  harness.process(0).send_signal(SIGUSR1);
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
  CHECK(harness.process(0).err().find("queue_full: 16777") != std::string::npos);
  CHECK(harness.process(0).err().find("bytes wait to leave; the limit is 16777216") !=
        std::string::npos);
}

TEST_CASE("proc: a message to a proc that is not there comes back to the program") {
  ProcHarness harness({.ranks = 2});
  harness.start(0, {"undelivered"});
  harness.wait_output(0, "came back: rank 1 port 77 no_such_proc");
  CHECK(harness.stop(0, 0, std::chrono::seconds(30)).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
}

TEST_CASE(
    "proc: messages that wait for a busy handler are not taken for lost, however long that takes") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  harness.send(0, 12, "5000");  // asked after one to two seconds (common/bus/delivery_tracker.cpp)
  for (int i = 0; i < 10; ++i) harness.send(0, 16, "x");
  harness.wait("the fates", [&] { return harness.launcher_traffic().outstanding == 0; });
  CHECK(harness.undelivered.empty());
  CHECK(harness.launcher_traffic().sent.taken == 11);
  CHECK(harness.call(0, 16, "").value() == std::string(10, 'x'));
}

TEST_CASE(
    "proc: what waits for a busy handler of a proc that dies is of unknown fate, each message "
    "once") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  harness.send(0, 12, "60000");
  for (int i = 0; i < 10; ++i) harness.send(0, 16, "x");
  harness.wait_output(0, "busy\n");
  harness.process(0).send_signal(SIGKILL);
  harness.wait("the fates", [&] { return harness.launcher_traffic().outstanding == 0; });
  // Whether the first one, which a handler has, was heard of is open.
  CHECK(harness.undelivered.size() >= 10);
  CHECK(harness.undelivered.size() + harness.launcher_traffic().sent.taken == 11);
  for (const auto& text : harness.undelivered)
    CHECK(text.find("fate_unknown") != std::string::npos);
}

TEST_CASE("proc: a message for a port that has no handler comes back to its sender") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  harness.send(0, 4711, "x");
  harness.wait("the return", [&] { return harness.undelivered.size() == 1; });
  CHECK(harness.undelivered[0] ==
        "port 4711 no_such_port: " + harness.mesh().proc_at(0)->to_string() +
            " has no handler for port 4711");
}

TEST_CASE("proc: one subscribes to its actors for oneself only, and to so many") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  const auto stream = [&](const std::string& name, const std::string& subscriber) {
    wire::StreamActorsT request;
    request.name = name;
    request.subscriber = subscriber;
    return harness.ask(0, std::move(request));
  };
  const auto other = harness.mesh().proc_at(0)->to_string();
  CHECK(stream("a", other).error().code() == ErrorCode::identity_mismatch);
  wire::StopActorStreamT stop;
  stop.name = "a";
  stop.subscriber = other;
  CHECK(harness.ask(0, std::move(stop)).error().code() == ErrorCode::identity_mismatch);
  Result<void> last;
  int count = 0;
  while (count < 5000 && (last = stream("a" + std::to_string(count), harness.launcher()))) ++count;
  CHECK(count == 4096);
  CHECK(last.error().code() == ErrorCode::queue_full);
}

TEST_CASE("proc: bootstrap once, with a program that can be") {
  ProcHarness harness;
  harness.start(0, {"twice"});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
  CHECK(harness.process(0).err() ==
        "configuration_error: ProcProgram::on: port 0 is the library's own; use 1 or above\n"
        "refused: this process is a mesh proc already: bootstrap() and join() are called once\n");
}

TEST_CASE("proc: works behind wrappers, also those that close its descriptor") {
  const std::vector<std::vector<std::string>> wrappers = {
      {"bash", "-c", "exec \"$@\"", "bash"},
      {"bash", "-c", "\"$@\"; exit $?", "bash"},
      {"/usr/bin/env", "A=B"},
      {"/usr/bin/python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"},
  };
  for (const auto& wrapper : wrappers) {
    CAPTURE(wrapper[0]);
    ProcHarness harness;
    harness.start(0, {"main"}, wrapper);
    harness.wait_ready(0);
    CHECK(harness.call(0, 1, "hello").value() == "hello");
    CHECK(harness.stop(0, 3, std::chrono::seconds(30)).has_value());
    CHECK(harness.wait_exit(0) == ExitStatus::exited(3));
  }
}

TEST_CASE("proc: a program that was not started as a mesh proc says so") {
  const auto finished = run({bin("meshbus_test_proc"), "serve"}, std::chrono::seconds(30),
                            {.environment = {{"MESHBUS_BOOTSTRAP", std::nullopt}}});
  CHECK(finished.status == ExitStatus::exited(78));
  CHECK(finished.err ==
        "meshbus_test_proc: not a mesh proc: MESHBUS_BOOTSTRAP is not set; start this program with "
        "`meshbus run --mesh -- PROGRAM`, or "
        "spawn it "
        "from a launcher with ProcKind::mesh\n");
  const auto broken = run({bin("meshbus_test_proc"), "serve"}, std::chrono::seconds(30),
                          {.environment = {{"MESHBUS_BOOTSTRAP", "1000:1:1"}}});
  CHECK(broken.status == ExitStatus::exited(78));
  CHECK(broken.err.find("descriptor 1000 is not open in this process") != std::string::npos);
}
