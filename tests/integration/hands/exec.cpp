// `meshbus exec`: a command beside a rank (spec 16.5).
#include <doctest/doctest.h>

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/base/unique_fd.h"
#include "tests/integration/hands/work.h"
#include "tests/integration/needs.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

std::string cgroups_of_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE(
    "exec: a command has the rank's cgroup and directory and environment; its streams and "
    "exit code come back") {
  const auto sleep = own_sleep();
  Work work("cd /usr/share; MARK=of-$RANK exec " + sleep);
  const auto done = work.exec("work:1",
                              {"sh", "-c",
                               "pwd; echo $MARK $RANK $MESHBUS_MESH $MORE; cat /proc/self/cgroup; "
                               "echo to-err >&2; exit 7"},
                              {}, {"-x", "MORE=yes"});
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(7));
  CHECK(done.err == "to-err\n");
  const auto lines = lines_of(done.out);
  REQUIRE(lines.size() > 3);
  CHECK(lines[0] == "/usr/share");
  CHECK(lines[1].starts_with("of-1 1 work-"));
  CHECK(lines[1].ends_with(" yes"));
  const auto ranks = sleepers(sleep);
  REQUIRE(ranks.size() == Work::ranks);
  CHECK(done.out.ends_with(cgroups_of_process(ranks[1].pid)));
}

TEST_CASE("exec: a mesh and the brackets of other commands name ranks, too; several get prefixes") {
  Work work;
  const auto all = work.exec("work", {"sh", "-c", "echo $RANK; exit $((RANK * 10))"});
  CHECK(sorted(lines_of(all.out)) == Words{"work[0] 0", "work[1] 1", "work[2] 2"});
  CHECK(all.status == ExitStatus::exited(20));
  const auto two = work.exec("work[0,2]", {"sh", "-c", "printf 'a\\nb'; echo e >&2"});
  CHECK(sorted(lines_of(two.out)) == Words{"work[0] a", "work[0] b", "work[2] a", "work[2] b"});
  CHECK(sorted(lines_of(two.err)) == Words{"work[0] e", "work[2] e"});
  CHECK(two.status == ExitStatus::exited(0));
}

TEST_CASE("exec: stdin goes to the command and every byte of 3 MB comes back") {
  Work work;
  std::string input;
  for (int i = 0; input.size() < 3'000'000; ++i) input += std::to_string(i) + '\n';
  const auto done = work.exec("work:0", {"cat"}, {.input = input});
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK((done.out == input));
  // A command that does not read it ends all the same.
  CHECK(work.exec("work:0", {"true"}, {.input = input}).status == ExitStatus::exited(0));
  // Without it the command reads nothing.
  CHECK(work.exec("work:0", {"cat"}, {.input = "x"}, {"-n"}).out.empty());
}

TEST_CASE("exec: -i gives all of stdin to each of several ranks, which otherwise read nothing") {
  Work work;
  const Words count = {"sh", "-c", "echo $(wc -c) bytes"};
  const ProcessOptions input{.input = std::string(1'000'000, 'x')};
  const auto all = work.exec("work", count, input, {"-i"});
  INFO(all.err);
  CHECK(sorted(lines_of(all.out)) ==
        Words{"work[0] 1000000 bytes", "work[1] 1000000 bytes", "work[2] 1000000 bytes"});
  const auto none = work.exec("work:0,1", count, input);
  CHECK(sorted(lines_of(none.out)) == Words{"work[0] 0 bytes", "work[1] 0 bytes"});
  // One that does not read it keeps nothing from the others.
  const auto one =
      work.exec("work", {"sh", "-c", "[ $RANK = 1 ] && exec <&-; echo $(wc -c 2>/dev/null) bytes"},
                input, {"-i"});
  INFO(one.err);
  CHECK(says(one.out, "work[0] 1000000 bytes"));
  CHECK(says(one.out, "work[2] 1000000 bytes"));
}

TEST_CASE("exec: a broker that dies loses no byte of a command") {
  Work work;
  Process client(cli(work.exec_words(
                     "work:2", {"sh", "-c", "seq 1 20000; echo half; read go; seq 20001 40000"})),
                 {.stdin_pipe = true});
  client.wait_for_output("half\n", in_time);
  ::kill(work.host.roles().broker, SIGKILL);
  client.write_stdin("go\n");
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(0));
  std::string wanted;
  for (int i = 1; i <= 40000; ++i) wanted += std::to_string(i) + (i == 20000 ? "\nhalf\n" : "\n");
  CHECK_MESSAGE((client.out() == wanted), client.out().size() << " bytes; " << client.err());
}

TEST_CASE(
    "exec: a command that is not there is 127, one that may not be executed 126, one that is "
    "killed 128 + signal") {
  Work work;
  const auto missing = work.exec("work:0", {"no-such-command"});
  CHECK(missing.status == ExitStatus::exited(127));
  CHECK(missing.err == "meshbus: no-such-command: No such file or directory\n");
  CHECK(work.exec("work:0", {"/etc/passwd"}).status == ExitStatus::exited(126));
  CHECK(work.exec("work:0", {"sh", "-c", "kill -9 $$"}).status == ExitStatus::exited(137));
  const auto no_rank = work.exec("work:7", {"true"});
  CHECK(no_rank.status == ExitStatus::exited(125));
  CHECK(says(no_rank.err, "no rank 7"));
  const auto no_command = run_cli({"exec", "--hosts", work.host.address(), "work:0"});
  CHECK(no_command.status == ExitStatus::exited(2));
  CHECK(says(no_command.err, "The command comes last"));
}

TEST_CASE("exec: the audit trail has the command and how it ended") {
  Work work;
  CHECK(work.exec("work:2", {"sh", "-c", "exit 9"}).status == ExitStatus::exited(9));
  REQUIRE(wait_until([&] { return !work.audited("exec ended", "exit 9").empty(); }, in_time));
  const auto began = work.audited("exec", "exit 9");
  REQUIRE(began.size() == 1);
  CHECK(began[0].at("what") == "sh -c exit 9");
  CHECK(began[0].at("ranks") == "2");
  CHECK(began[0].at("outcome") == "ok");
  CHECK(work.audited("exec ended", "exit 9")[0].at("outcome") == "exit 9");
}

TEST_CASE("exec: kill -9 of the client ends the command and what it has started") {
  const auto sleep = own_sleep();
  Work work;
  Process client(cli(work.exec_words(
      "work:0", {"sh", "-c", "trap '' HUP; (setsid " + sleep + " &); echo begun; " + sleep})));
  client.wait_for_output("begun", in_time);
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  client.send_signal(SIGKILL);
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
  CHECK(work.run.is_running());
  REQUIRE(wait_until([&] { return !work.audited("exec ended", "begun").empty(); }, in_time));
}

TEST_CASE("exec: Ctrl-C goes to the command; a second one ends it") {
  const auto sleep = own_sleep();
  Work work;
  Process once(cli(work.exec_words(
      "work:0",
      {"sh", "-c", "trap 'echo got-int; exit 5' INT; echo begun; " + sleep + " & wait"})));
  once.wait_for_output("begun", in_time);
  once.send_signal(SIGINT);
  CHECK(once.wait_exit(in_time) == ExitStatus::exited(5));
  CHECK(says(once.out(), "got-int"));

  Process twice(cli(work.exec_words("work:0", {"sh", "-c", "trap '' INT; echo begun; " + sleep})));
  twice.wait_for_output("begun", in_time);
  // Two that come at once are one.
  CHECK(wait_until(
      [&] {
        if (twice.is_running()) twice.send_signal(SIGINT);
        return !twice.is_running();
      },
      in_time));
  CHECK(twice.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE("exec: the end of the rank ends its commands and the client says so") {
  const auto sleep = own_sleep();
  Work work;
  Process client(cli(work.exec_words("work:1", {"sh", "-c", "trap '' HUP; echo begun; " + sleep})));
  client.wait_for_output("begun", in_time);
  const auto stopped =
      run_cli({"stop", "--hosts", work.host.address(), "work[1]", "--grace", "0s"});
  INFO(stopped.err);
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(137));
  CHECK(says(client.err(), "rank 1 has ended"));
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE("exec: a host runs no more than exec.limit and says so") {
  Work work("exec sleep 300", {}, {"--set", "exec.limit=1"});
  Process first(cli(work.exec_words("work:0", {"sh", "-c", "echo begun; exec sleep 300"})));
  first.wait_for_output("begun", in_time);
  const auto second = work.exec("work:1", {"true"});
  CHECK(second.status == ExitStatus::exited(125));
  CHECK(says(second.err, "exec.limit"));
  first.send_signal(SIGTERM);
  CHECK(first.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(wait_until([&] { return work.exec("work:1", {"true"}).status == ExitStatus::exited(0); },
                   in_time));
}

TEST_CASE("exec: the end of the host's agent ends its commands") {
  const auto sleep = own_sleep();
  Work work;
  Process client(cli(work.exec_words("work:1", {"sh", "-c", "echo begun; " + sleep})));
  client.wait_for_output("begun", in_time);
  ::kill(work.host.roles().agent, SIGKILL);
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
  const auto status = client.wait_exit(in_time);
  CHECK_MESSAGE(status == ExitStatus::exited(123), client.err());
  CHECK(says(client.err(), "lost"));
}

TEST_CASE("exec: a command that has ended is over although another process holds its output") {
  const auto sleep = own_sleep();
  Work work;
  Process client(cli(work.exec_words("work:1", {"sh", "-c", "echo begun; exec " + sleep})));
  client.wait_for_output("begun", in_time);
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  const pid_t command = sleepers(sleep).front().pid;
  const std::string streams = "/proc/" + std::to_string(command) + "/fd/";
  const meshbus::UniqueFd out(::open((streams + "1").c_str(), O_WRONLY | O_CLOEXEC));
  const meshbus::UniqueFd err(::open((streams + "2").c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(out);
  REQUIRE(err);
  REQUIRE(::kill(command, SIGTERM) == 0);
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(client.out() == "begun\n");
}

TEST_CASE("exec: output that cannot be written is said") {
  Work work;
  std::string line = "exec >/dev/full;";
  for (const auto& word : cli(work.exec_words("work:1", {"echo", "text"}))) line += " " + word;
  const auto done = run({"sh", "-c", line}, in_time);
  CHECK(done.status == ExitStatus::exited(125));
  CHECK(says(done.err, "the output cannot be written: No space left on device"));
}
