// The places that `meshbus exec` takes: containments, limits, namespaces, users.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/integration/hands/work.h"
#include "tests/integration/needs.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

/// Runs a command beside rank 1 until its output has that text: the rank has said "up" before it
/// is what it becomes.
Finished exec_until(const Work& work, const Words& command, const std::string& text,
                    const Words& options = {}) {
  Finished done;
  const bool has_come = wait_until(
      [&] {
        done = work.exec("work:1", command, {}, options);
        return says(done.out + done.err, text);
      },
      in_time);
  INFO(done.out << done.err);
  REQUIRE(has_come);
  return done;
}

Finished copy_to(const Work& work, const std::string& from, const std::string& place) {
  return run_cli({"cp", "--hosts", work.host.address(), from, "work:1:" + place});
}

/// Puts a filter on itself that lets every call through, and sleeps.
constexpr char kFiltered[] = R"(
import ctypes, os, struct
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
os.execvp("sleep", ["sleep", "300"])
)";

}  // namespace

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

TEST_CASE("exec: a rank that runs a setuid program gives nobody that program's rights" *
          doctest::test_suite(need::root)) {
  TempDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  const auto program = dir / "sleep";
  fs::copy_file("/bin/sleep", program);
  fs::permissions(program, fs::perms(04755));
  Work work("exec setpriv --reuid 65534 --regid 65534 --clear-groups " + program + " 300");
  const auto done = exec_until(work, {"id", "-u"}, "setuid");
  CHECK(done.status == ExitStatus::exited(125));
  CHECK(done.out.empty());
  const auto copied = copy_to(work, program, dir / "copy");
  CHECK(copied.status == ExitStatus::exited(1));
  CHECK(says(copied.err, "setuid"));
  CHECK_FALSE(fs::exists(dir / "copy"));
}

TEST_CASE("exec: a command gets no capability that its rank has dropped" *
          doctest::test_suite(need::root)) {
  TempDir dir;
  Work work("exec setpriv --bounding-set=-all --inh-caps=-all sleep 300");
  const auto done =
      exec_until(work, {"grep", "^Cap", "/proc/self/status"}, "CapBnd:\t0000000000000000");
  CHECK(says(done.out, "CapPrm:\t0000000000000000"));
  CHECK(says(done.out, "CapEff:\t0000000000000000"));
  // Nor does a copy, which could go on where only these lead.
  const auto copied = copy_to(work, dir.write("file", "text"), "/proc/1/root" + (dir / "copy"));
  CHECK(copied.status == ExitStatus::exited(1));
  CHECK_FALSE(fs::exists(dir / "copy"));
}

TEST_CASE("exec: a rank under a filter of system calls is refused, in words") {
  Work work("exec /usr/bin/python3 -c '" + std::string(kFiltered) + "'");
  const auto done = exec_until(work, {"true"}, "seccomp");
  CHECK(done.status == ExitStatus::exited(125));
}

TEST_CASE("exec: the rank's user can look into nothing that runs for a terminal" *
          doctest::test_suite(need::root)) {
  Work work("exec setpriv --reuid 12345 --regid 54321 --clear-groups sleep 300");
  const auto done =
      exec_until(work, {"sh", "-c", "grep Uid /proc/$PPID/status; cat /proc/$PPID/environ; id -u"},
                 "Uid:\t12345", {"-t"});
  INFO(done.out);
  CHECK(says(done.out, "Uid:\t12345\t12345\t12345\t12345"));
  CHECK(says(done.out, "Permission denied"));
}
