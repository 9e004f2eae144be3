// Programs that become a proc by join() and go on as its main().
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>

#include "tests/integration/proc/harness.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

/// Whether that process has a handler of that signal.
bool catches(pid_t pid, int number) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:"))
      return ((std::stoull(line.substr(7), nullptr, 16) >> (number - 1)) & 1) != 0;
  }
  return false;
}

}  // namespace

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

TEST_CASE("proc: join() returns, too, when a stop comes before the proc is ready") {
  ProcHarness harness;
  harness.stop_agent();  // nobody takes the proc for ready
  // It has no on_stop(), and nobody has asked yet: it is not ended at once for that.
  Process& proc = harness.start(0, {"join-silent"});
  harness.wait("its handler of SIGTERM", [&] { return catches(proc.pid(), SIGTERM); });
  proc.send_signal(SIGTERM);
  harness.wait_output(0, "joined: rank 0, stopped?");
  CHECK(harness.wait_exit(0) == ExitStatus::exited(5));
  CHECK(proc.err().find("stop: 143 signal Terminated\n") != std::string::npos);
}

TEST_CASE("proc: after leave_signals() its agent still asks it to stop") {
  ProcHarness harness;
  harness.start(0, {"join-own-signals"});
  harness.wait_output(0, "self: myself");
  CHECK(harness.stop(0, 7, 30s, "the mesh stops").has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(5));
  CHECK(harness.process(0).err().find("on_stop: the mesh stops\n") != std::string::npos);
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
