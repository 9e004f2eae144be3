// `meshbus exec` on a terminal (spec 16.5).
#include <doctest/doctest.h>

#include <csignal>

#include "tests/integration/hands/work.h"
#include "tests/support/shell_on_terminal.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

TEST_CASE(
    "exec on a terminal: the command has one of our size; resize and Ctrl-C reach it; ours is "
    "as before in the end") {
  Work work("MARK=$RANK exec sleep 300");
  ShellOnTerminal shell(cli(work.exec_words(
      "work:2",
      {"sh", "-c",
       "trap 'echo got-int' INT; trap 'echo now-`stty size | tr \" \" x`=' WINCH; "
       "echo begin-`stty size | tr ' ' x`-$TERM-$MARK; tty -s && echo is-tty; "
       "until [ \"$line\" = end ]; do read line && echo line-$line; done; cat; exit 5"})));
  shell.wait_for("begin-24x80-vt100-2");
  shell.wait_for("is-tty");
  shell.type("hello\r");
  shell.wait_for("line-hello");
  shell.type("\x03");
  shell.wait_for("got-int");
  CHECK(run({"stty", "-F", shell.tty(), "rows", "33", "cols", "99"}, in_time).status ==
        ExitStatus::exited(0));
  shell.type("\r");
  shell.wait_for("now-33x99=");
  shell.type("end\r");
  shell.wait_for("line-end");
  shell.type("\x04");
  shell.wait_for("rc=5");
  shell.wait_for("restored");
}

TEST_CASE("exec on a terminal: 1 MB is pasted and every byte arrives") {
  Work work;
  std::string text;
  for (int i = 0; text.size() < 1'000'000; ++i) text += std::to_string(i) + " pasted\n";
  TempDir folder;
  const auto file = (folder / "pasted");
  ShellOnTerminal shell(cli(work.exec_words(
      "work:0", {"sh", "-c", "stty -echo; echo begin; cat > " + file + "; echo all"})));
  shell.wait_for("begin");
  shell.type(text);
  shell.type("\x04");
  shell.wait_for("all");
  shell.wait_for("restored");
  CHECK(run({"cmp", file, "-"}, in_time, {.input = text}).status == ExitStatus::exited(0));
}

TEST_CASE("exec on a terminal: kill -9 of the client leaves nothing of the command") {
  const auto sleep = own_sleep();
  Work work;
  ShellOnTerminal shell(cli(work.exec_words(
      "work:0", {"sh", "-c", "trap '' HUP TERM; (setsid " + sleep + " &); echo begun; " + sleep})));
  shell.wait_for("begun");
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  for (const auto& process : own_processes_with("exec --hosts " + work.host.address())) {
    if (process.name == "meshbus") ::kill(process.pid, SIGKILL);
  }
  shell.wait_for("rc=137");
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE(
    "exec on a terminal: what is killed is told as a signal, and the end of the host as such") {
  Work work;
  ShellOnTerminal killed(cli(work.exec_words("work:0", {"sh", "-c", "kill -9 $$"})));
  killed.wait_for("rc=137");
  killed.wait_for("restored");
  ShellOnTerminal lost(cli(work.exec_words("work:0", {"sh", "-c", "echo begun; sleep 300"})));
  lost.wait_for("begun");
  work.host.process().send_signal(SIGKILL);
  lost.wait_for("rc=123");
  lost.wait_for("restored");
}
