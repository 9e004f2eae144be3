// Programs that become a proc by join() and go on as its main().
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/integration/proc/harness.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE("proc: join() returns when the proc is ready, and the caller goes on as its main()") {
  ProcHarness harness;
  harness.start(0, {"join"});
  harness.wait_ready(0);
  harness.wait_output(0, "self: myself");
  CHECK(harness.call(0, 1, "hello") == "hello");
  CHECK(harness.stop(0, 7, 30s, "the mesh stops").has_value());
  // Its own code: it knows the one of the request.
  CHECK(harness.wait_exit(0) == ExitStatus::exited(5));
  const auto& err = harness.process(0).err();
  for (const char* line :
       {"refused: this process is a mesh proc already: bootstrap() and join() are called once\n",
        "joined: rank 0\n", "on_stop: the mesh stops\n", "stop: 7 the mesh stops\n",
        "static destroyed\n"}) {
    CAPTURE(line);
    CHECK(err.find(line) != std::string::npos);
  }
}

TEST_CASE("proc: join() refuses a program with a main(), and a process that is no proc") {
  ProcHarness harness;
  harness.start(0, {"join-main"});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(78));
  CHECK(harness.process(0).err().find("is for bootstrap()") != std::string::npos);
  ProcHarness other;
  other.start(0, {"join"}, {"env", "-u", "MESHBUS_BOOTSTRAP"});
  CHECK(other.wait_exit(0) == ExitStatus::exited(78));
  CHECK(other.process(0).err().find("not a mesh proc") != std::string::npos);
}

TEST_CASE("proc: after leave_signals() a signal does what it does in any other program") {
  ProcHarness harness;
  harness.start(0, {"join-own-signals"});
  harness.wait_output(0, "self: myself");
  harness.process(0).send_signal(SIGTERM);
  CHECK(harness.wait_exit(0) == ExitStatus::killed_by(SIGTERM));
  CHECK(harness.process(0).err().find("on_stop") == std::string::npos);
}

TEST_CASE("proc: a signal stops a joined proc as its agent does") {
  ProcHarness harness;
  harness.start(0, {"join"});
  harness.wait_output(0, "self: myself");
  harness.process(0).send_signal(SIGTERM);
  CHECK(harness.wait_exit(0) == ExitStatus::exited(5));
  CHECK(harness.process(0).err().find("stop: 143 signal Terminated") != std::string::npos);
}
