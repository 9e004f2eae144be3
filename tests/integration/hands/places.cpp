// The places that `meshbus exec` takes: containments, limits, namespaces, users.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "tests/integration/hands/work.h"
#include "tests/integration/needs.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

TEST_CASE(
    "exec: in every containment a command runs, and nothing is left of it when its client is "
    "killed") {
  for (const auto& containment : containments()) {
    CAPTURE(containment);
    const auto sleep = own_sleep();
    Work work("MARK=$RANK exec sleep 300", {}, {"--containment", containment});
    const auto done = work.exec("work:2", {"sh", "-c", "echo $MARK"});
    CHECK_MESSAGE(done.out == "2\n", done.err);
    Process client(cli(work.exec_words(
        "work:1", {"sh", "-c", "trap '' HUP; (setsid " + sleep + " &) ; echo begun; " + sleep})));
    client.wait_for_output("begun", in_time);
    REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
    client.send_signal(SIGKILL);
    CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
  }
}

TEST_CASE("exec: a command counts for the limits of its rank and ends with it" *
          doctest::test_suite(need::memory_limit)) {
  const auto sleep = own_sleep();
  Work work("cat /proc/self/cgroup; exec sleep 300", {"--memory", "256MiB", "--no-prefix"});
  const auto own = work.exec("work:1", {"cat", "/proc/self/cgroup"});
  INFO(own.err);
  CHECK(says(own.out, "/proc-"));
  CHECK(says(work.run.out(), own.out));
  Process client(cli(work.exec_words("work:1", {"sh", "-c", "echo begun; " + sleep})));
  client.wait_for_output("begun", in_time);
  CHECK(run_cli({"stop", "--hosts", work.host.address(), "work[1]", "--grace", "0s"}).status ==
        ExitStatus::exited(0));
  CHECK(client.wait_exit(in_time) == ExitStatus::exited(137));
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE("exec: a command has the rank's namespaces, root directory, user and groups" *
          doctest::test_suite(need::root)) {
  TempDir dir;
  const std::string inside =
      "unshare -n -u -i -m sh -c 'hostname inside; "
      "mount -t tmpfs none /mnt; echo secret > /mnt/file; exec setpriv --reuid 12345 --regid 54321 "
      "--groups 1,2 sleep 300'";
  Work work("exec " + inside);
  // The rank has said "up" before it is there.
  Finished done;
  const Words look = {"sh", "-c",
                      "hostname; cat /mnt/file; id -u; id -g; id -G; echo mine > /mnt/mine; "
                      "stat -c %u /mnt/mine"};
  REQUIRE(wait_until(
      [&] {
        done = work.exec("work:1", look);
        return says(done.out, "12345");
      },
      in_time));
  INFO(done.err);
  const auto lines = lines_of(done.out);
  REQUIRE(lines.size() >= 6);
  CHECK(lines[0] == "inside");
  CHECK(lines[1] == "secret");
  CHECK(lines[2] == "12345");
  CHECK(lines[3] == "54321");
  CHECK(lines[4] == "54321 1 2");
  CHECK(lines[5] == "12345");
  // Files go there, too, and belong to that user.
  const auto cp = [&](const std::string& from, const std::string& to) {
    const auto copied = run_cli({"cp", "--hosts", work.host.address(), from, to});
    CHECK_MESSAGE(copied.status == ExitStatus::exited(0), copied.err);
  };
  cp("work:1:/mnt/file", dir / "out");
  cp(dir / "out", "work:1:/mnt/copy");
  CHECK(work.exec("work:1", {"sh", "-c", "cat /mnt/copy; stat -c %u /mnt/copy"}).out ==
        "secret\n12345\n");
}
