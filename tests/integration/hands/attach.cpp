// `meshbus attach`: what one rank writes, and our stdin to it.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>

#include "tests/integration/hands/work.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Ranks that answer each line of their stdin.
constexpr char kAnswering[] =
    "while read line; do echo $RANK-heard-$line; [ $line = end ] && exit 4; done; echo closed; "
    "exec sleep 300";

Words attach_words(const Work& work, const Words& words) {
  Words all = {"attach", "--hosts", work.host.address()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

TEST_CASE("attach: a rank hears our stdin and we what it writes; its exit code is ours") {
  // The stdin of run stays open, as on a terminal.
  Work work(kAnswering, {"--stdin", "all"}, {}, {.stdin_pipe = true});
  Process client(cli(attach_words(work, {"--tail", "5", "work:1"})), {.stdin_pipe = true});
  client.wait_for_output("up\n", in_time);
  client.write_stdin("hello\n");
  client.wait_for_output("1-heard-hello\n", in_time);
  CHECK_FALSE(says(client.out(), "0-heard"));
  // Ctrl-C leaves the rank as it is.
  client.send_signal(SIGINT);
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(130));
  Process again(cli(attach_words(work, {"work:1"})), {.stdin_pipe = true});
  again.write_stdin("end\n");
  CHECK(again.wait_exit(in_time) == ExitStatus::exited(4));
  INFO(again.err());
  CHECK(says(again.out(), "1-heard-end\n"));
}

TEST_CASE("attach: a rank that takes no input is followed all the same, and that is said") {
  TempDir dir;
  const auto go = dir / "go";
  Work work("until [ -e " + go + " ]; do sleep 0.05; done; echo later; kill -9 $$");
  Process client(cli(attach_words(work, {"--tail", "5", "work:2"})), {.stdin_pipe = true});
  client.wait_for_output("up\n", in_time);
  client.write_stdin("hello\n");
  CHECK(wait_until(
      [&] {
        client.is_running();
        return says(client.err(), "work[2]: it takes no input: ");
      },
      in_time));
  std::ofstream(go) << "go";
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(137));
  CHECK(client.out() == "up\nlater\n");
  // The others end soon.
  CHECK(wait_until(
      [&] { return run_cli(attach_words(work, {"work"})).status == ExitStatus::exited(125); },
      in_time));
}

TEST_CASE("attach: one rank that is there, or a mistake that is said") {
  Work work;
  const auto several = run_cli(attach_words(work, {"work"}));
  CHECK(several.status == ExitStatus::exited(2));
  CHECK(says(several.err, "attach is to one rank"));
  const auto none = run_cli(attach_words(work, {"work:7"}));
  CHECK(none.status == ExitStatus::exited(125));
  CHECK(says(none.err, "no rank 7"));
}

TEST_CASE("attach: the end of our stdin leaves that of the rank open, unless --close") {
  Work work(kAnswering, {"--stdin", "all"}, {}, {.stdin_pipe = true});
  // Its stdin is at its end at once.
  Process ended(cli(attach_words(work, {"--tail", "5", "work:1"})));
  ended.wait_for_output("up\n", in_time);
  Process client(cli(attach_words(work, {"work:1"})), {.stdin_pipe = true});
  client.write_stdin("hello\n");
  client.wait_for_output("1-heard-hello\n", in_time);
  ended.wait_for_output("1-heard-hello\n", in_time);
  CHECK_FALSE(says(ended.out(), "closed"));
  Process closing(cli(attach_words(work, {"--close", "work:1"})));
  closing.wait_for_output("closed\n", in_time);
}
