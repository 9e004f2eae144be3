// How mesh procs come to an end: asked, ordered, signalled, left alone.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/integration/proc/harness.h"
#include "tests/support/process_table.h"
#include "wire/bootstrap_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

TEST_CASE("proc: a stop runs on_stop and exits with the code asked for") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  CHECK(harness.stop(0, 7, 30s, "the mesh stops").has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(7));
  CHECK(harness.process(0).err() == "on_stop: the mesh stops\n");
}

TEST_CASE("proc: a stop lets a main that looks come to its end") {
  ProcHarness harness;
  harness.start(0, {"main"});
  harness.wait_output(0, "main\n");
  CHECK(harness.stop(0, 0, 30s).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));  // the code of the request, not main's 5
  CHECK(harness.process(0).err() == "main\ncleaning up\n");
}

TEST_CASE("proc: calls that were queued when the stop came are answered") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  int answered = 0;
  for (int i = 0; i < 10; ++i) {
    harness.call_later(0, i == 0 ? 12 : 1, "100",
                       [&](const Result<std::string>& answer) { answered += answer ? 1 : 0; });
  }
  harness.wait_output(0, "busy");
  CHECK(harness.stop(0, 0, 30s).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(0));
  harness.wait("the answers", [&] { return answered == 10; });
}

TEST_CASE("proc: at the end of the grace it exits, wherever it is") {
  for (const char* mode : {"stubborn", "serve"}) {
    CAPTURE(mode);
    ProcHarness harness;
    harness.start(0, {mode});
    if (mode == std::string("serve")) {
      harness.call_later(0, 12, "60000", [](const Result<std::string>&) {});
      harness.wait_output(0, "busy");
    } else {
      harness.wait_output(0, "main");
    }
    CHECK(harness.stop(0, 9, 200ms, "no more work").has_value());
    CHECK(harness.wait_exit(0) == ExitStatus::exited(9));
    CHECK(harness.process(0).err().find("it was asked to stop (no more work) and was still busy at "
                                        "the end of its part of the grace; ending") !=
          std::string::npos);
  }
}

TEST_CASE("proc: a main that would not notice a stop ends at once") {
  ProcHarness harness;
  harness.start(0, {"deaf"});
  harness.wait_output(0, "main");
  const auto before = std::chrono::steady_clock::now();
  CHECK(harness.stop(0, 4, 50s).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(4));
  CHECK(std::chrono::steady_clock::now() - before < 40s);
}

TEST_CASE("proc: a second stop may make the end sooner, and changes nothing else") {
  ProcHarness harness;
  harness.start(0, {"stubborn"});
  harness.wait_output(0, "main");
  CHECK(harness.stop(0, 3, 100s).has_value());
  CHECK(harness.stop(0, 4, 100ms).has_value());
  CHECK(harness.wait_exit(0) == ExitStatus::exited(3));
}

TEST_CASE("proc: an order to exit is obeyed at once") {
  ProcHarness harness;
  harness.start(0, {"stubborn"});
  harness.wait_output(0, "main");
  harness.order_exit(0, 6);
  CHECK(harness.wait_exit(0) == ExitStatus::exited(6));
}

TEST_CASE("proc: nobody but its agent may end it") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  CHECK(harness.ask(0, wire::StopAndExitT()).error().code() == ErrorCode::unauthorised);
  CHECK(harness.call(0, 1, "here").value() == "here");
}

TEST_CASE("proc: SIGTERM and SIGINT are a stop with exit code 128+n") {
  for (const int number : {SIGTERM, SIGINT}) {
    ProcHarness harness;
    harness.start(0, {"serve"});
    harness.wait_ready(0);
    harness.process(0).send_signal(number);
    CHECK(harness.wait_exit(0) == ExitStatus::exited(128 + number));
    CHECK(harness.process(0).err().starts_with("on_stop: signal "));
  }
}

TEST_CASE("proc: the grace of a signal is the launcher's setting") {
  ProcHarness harness({.config = {{"terminate.grace", "100ms"}}});
  harness.start(0, {"stubborn"});
  harness.wait_output(0, "main");
  harness.process(0).send_signal(SIGTERM);
  CHECK(harness.wait_exit(0) == ExitStatus::exited(143));
}

TEST_CASE("proc: a program's own signal handler stays") {
  ProcHarness harness;
  harness.start(0, {"own-handler"});
  harness.wait_output(0, "main");
  harness.process(0).send_signal(SIGTERM);
  CHECK(harness.wait_exit(0) == ExitStatus::exited(33));
}

TEST_CASE("proc: exit() in a handler ends the process with that code") {
  ProcHarness harness;
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  harness.call_later(0, 5, "", [](const Result<std::string>&) {});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(41));
}

TEST_CASE("proc: ends with 75 and one line when the agent stays away") {
  ProcHarness harness({.away = 500ms, .heartbeat = 50ms});
  harness.start(0, {"stubborn"});
  harness.wait_output(0, "main");
  harness.wait("heartbeats",
               [&] { return harness.heartbeats[harness.mesh().proc_at(0)->to_string()] >= 3; });
  harness.stop_agent();
  CHECK(harness.wait_exit(0) == ExitStatus::exited(75));
  CHECK(harness.process(0).err() == "main\nmeshbus: " + harness.mesh().proc_at(0)->to_string() +
                                        ": the host agent stayed away for 0.5 s; ending\n");
}

TEST_CASE("proc: ends with 75 and one line when the broker stays away") {
  ProcHarness harness({.away = 500ms, .heartbeat = 50ms});
  harness.start(0, {"stubborn"});
  harness.wait_output(0, "main");
  harness.stop_broker();
  CHECK(harness.wait_exit(0) == ExitStatus::exited(75));
  CHECK(harness.process(0).err().find("the broker stayed away for 0.5 s; ending") !=
        std::string::npos);
}

TEST_CASE("proc: outlives an agent that comes back") {
  ProcHarness harness({.heartbeat = 50ms});
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  auto& heartbeats = harness.heartbeats[harness.mesh().proc_at(0)->to_string()];
  harness.wait("heartbeats", [&] { return heartbeats >= 2; });
  harness.stop_agent();
  harness.start_agent();
  const int before = heartbeats;
  harness.wait("heartbeats again", [&] { return heartbeats >= before + 2; });
  CHECK(harness.call(0, 1, "hello").value() == "hello");
}

TEST_CASE("proc: outlives a broker that comes back, and registers again") {
  ProcHarness harness({.heartbeat = 50ms});
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  auto& readies = harness.readies[harness.mesh().proc_at(0)->to_string()];
  const int before = readies;
  harness.stop_broker();
  harness.start_broker();
  harness.wait("ready again", [&] { return readies > before; });
  CHECK(harness.call(0, 1, "hello").value() == "hello");
}

TEST_CASE("proc: having been stopped itself is not the agent's absence") {
  ProcHarness harness({.away = 1s, .heartbeat = 50ms});
  harness.start(0, {"serve"});
  harness.wait_ready(0);
  auto& process = harness.process(0);
  process.send_signal(SIGSTOP);
  harness.wait("the process is stopped", [&] { return find_process(process.pid())->state == 'T'; });
  const auto until = std::chrono::steady_clock::now() + 2s;
  harness.wait("twice the limit", [&] { return std::chrono::steady_clock::now() > until; });
  process.send_signal(SIGCONT);
  CHECK(harness.call(0, 1, "hello").value() == "hello");
  auto& heartbeats = harness.heartbeats[harness.mesh().proc_at(0)->to_string()];
  const int before = heartbeats;
  harness.wait("heartbeats", [&] { return heartbeats >= before + 3; });
  CHECK(process.is_running());
}

TEST_CASE("proc: a proc that the broker refuses ends and says why") {
  ProcHarness harness({.wrong_token = true});
  harness.start(0, {"serve"});
  CHECK(harness.wait_exit(0) == ExitStatus::exited(77));
  CHECK(harness.process(0).err().find("refused") != std::string::npos);
  CHECK(harness.process(0).err().find("(unauthorised); ending") != std::string::npos);
}
