// The lab itself: what it promises to the other tests.
#include "tests/lab/lab.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "common/base/unique_fd.h"
#include "tests/support/environment.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using meshbus::UniqueFd;

namespace {

namespace fs = std::filesystem;

/// How many hosts the largest lab has. Read before main(), which removes all our variables from the
/// environment.
const std::size_t many_hosts = [] {
  const char* text = std::getenv("MESHBUS_TEST_LAB_HOSTS");
  return text == nullptr ? std::size_t{16} : static_cast<std::size_t>(std::atoi(text));
}();

/// Processes that are in one of these namespaces.
std::string users_of(const std::vector<std::string>& namespaces) {
  const std::set<std::string> wanted(namespaces.begin(), namespaces.end());
  std::string found;
  for (const ProcessInfo& one : all_processes()) {
    for (const char* kind : {"net", "pid", "mnt", "uts", "ipc"}) {
      std::error_code gone;
      const auto its = fs::read_symlink("/proc/" + std::to_string(one.pid) + "/ns/" + kind, gone);
      if (!gone && wanted.contains(its.string())) {
        found += one.to_string() + "\n";
        break;
      }
    }
  }
  return found;
}

/// Keeps these namespaces from ending, so that no lab beside this one gets the number of one of
/// them.
std::vector<UniqueFd> hold(const std::vector<std::string>& namespaces) {
  std::set<std::string> wanted(namespaces.begin(), namespaces.end());
  std::vector<UniqueFd> held;
  for (const ProcessInfo& one : all_processes()) {
    for (const char* kind : {"net", "pid", "mnt", "uts", "ipc"}) {
      const auto link = "/proc/" + std::to_string(one.pid) + "/ns/" + kind;
      std::error_code gone;
      if (wanted.erase(fs::read_symlink(link, gone).string()) == 0) continue;
      held.emplace_back(::open(link.c_str(), O_RDONLY | O_CLOEXEC));
    }
  }
  return held;
}

std::string interfaces() {
  return run({"ip", "-o", "link"}, in_time).out;
}
std::string mounts() {
  return read_file("/proc/self/mountinfo");
}

/// Whether one host reaches another: an answer to a ping within `patience`.
bool reaches(const Lab::Host& from, const Lab::Host& to,
             std::chrono::milliseconds patience = 500ms) {
  const std::string seconds = std::to_string(static_cast<double>(patience.count()) / 1000);
  return from.run({"ping", "-n", "-c", "1", "-W", seconds, to.address()}, in_time).status ==
         ExitStatus::exited(0);
}

long milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start)
      .count();
}

void up_and_down(std::size_t hosts) {
  const std::string links = interfaces(), mounted = mounts();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> namespaces;
  std::string room, cgroup;
  std::vector<UniqueFd> held;
  long up = 0;
  {
    Lab lab(hosts);
    up = milliseconds_since(start);
    CHECK(lab.size() == hosts);
    namespaces = lab.namespaces();
    room = lab.room();
    cgroup = lab.cgroup();
    CHECK(std::set<std::string>(namespaces.begin(), namespaces.end()).size() == (hosts + 1) * 5);
    CHECK(reaches(lab.host(0), lab.host(hosts - 1), 5s));
    CHECK(users_of(namespaces) != "");
    held = hold(namespaces);
    CHECK(held.size() == namespaces.size());
    CHECK(fs::exists(room));
  }
  const long down = milliseconds_since(start) - up;
  CHECK(users_of(namespaces) == "");
  held.clear();
  CHECK_FALSE(fs::exists(room));
  CHECK_FALSE((!cgroup.empty() && fs::exists(cgroup)));
  CHECK(interfaces() == links);
  CHECK(mounts() == mounted);
  MESSAGE(hosts << " hosts: up and looked at after " << up << " ms, down in " << down << " ms");
}

}  // namespace

TEST_CASE("lab: three hosts come up and go, and nothing is left") {
  up_and_down(3);
}

TEST_CASE("lab: many hosts come up and go, and nothing is left") {
  up_and_down(many_hosts);
}

TEST_CASE(
    "lab: a host has a name, an address, files and processes of its own, and knows the others by "
    "name") {
  Lab lab(2);
  const Lab::Host one = lab.host(0), two = lab.host(1);
  CHECK(one.run({"hostname"}, in_time).out == "host0\n");
  CHECK(two.run({"hostname"}, in_time).out == "host1\n");
  CHECK(one.run({"getent", "hosts", "host1"}, in_time).out.starts_with(two.address()));
  CHECK(
      one.run({"sh", "-c", "echo mine >$TMPDIR/file; echo $HOME $XDG_RUNTIME_DIR"}, in_time).out ==
      lab.room() + "/home " + lab.room() + "/run\n");
  CHECK(read_file(one.file(lab.room() + "/tmp/file")) == "mine\n");
  CHECK(two.run({"ls", lab.room() + "/tmp"}, in_time).out == "");
  // Process 1, the shell and ps itself: nobody else can be seen from inside.
  CHECK(two.run({"sh", "-c", "ls -d /proc/[0-9]* | wc -l; true"}, in_time).out.front() <= '4');
  CHECK(one.processes().empty());
}

TEST_CASE("lab: a program on a host gets input, signals and environment, and ends as it ends") {
  Lab lab(1);
  const Lab::Host host = lab.host(0);
  CHECK(host.run({"sh", "-c", "cat; echo $A >&2; exit 7"}, in_time,
                 {.environment = {{"A", "b"}}, .input = "in"})
            .status == ExitStatus::exited(7));
  CHECK(host.run({"sh", "-c", "kill -SEGV $$"}, in_time).status == ExitStatus::killed_by(SIGSEGV));
  CHECK(host.run({"/no/such/program"}, in_time).status == ExitStatus::exited(125));
  Process sleeper = host.start(
      {"sh", "-c", "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.01; done"});
  sleeper.wait_for_output("up", in_time);
  CHECK(host.processes().size() >= 1);
  sleeper.send_signal(SIGTERM);
  CHECK(sleeper.wait_exit(in_time) == ExitStatus::exited(3));
  CHECK(sleeper.out() == "up\nasked\n");
  {
    Process forgotten = host.start({"sleep", "1000"});
    CHECK(wait_until([&] { return host.processes().size() == 1; }, in_time));
  }
  CHECK(wait_until([&] { return host.processes().empty(); }, in_time));
}

TEST_CASE(
    "lab: a cut, a one-way loss and a pulled cable stop what they should and nothing else, and "
    "heal") {
  Lab lab(3);
  const Lab::Host a = lab.host(0), b = lab.host(1), c = lab.host(2);
  CHECK(reaches(a, b, 5s));
  lab.cut(0, 1);
  CHECK_FALSE(reaches(a, b));
  CHECK_FALSE(reaches(b, a));
  CHECK(reaches(a, c, 5s));
  CHECK(reaches(c, b, 5s));
  lab.heal(0, 1);
  CHECK(reaches(a, b, 5s));

  // A flow of datagrams tells the directions apart, a ping does not. 33: SO_RCVBUFFORCE, room for
  // all of them.
  const auto arrived = [&](const Lab::Host& from, const Lab::Host& to) {
    Process sink = to.start(
        {"python3", "-c",
         "import os, signal, socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
         "s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)\ns.bind(('', 9))\n"
         "def count(*_):\n  s.setblocking(False)\n  n = 0\n  try:\n    while True: s.recv(9); n += "
         "1\n"
         "  except BlockingIOError: print(n, flush=True)\n  os._exit(0)\n"
         "signal.signal(signal.SIGTERM, count)\nprint('up', flush=True)\nwhile True: "
         "signal.pause()"});
    sink.wait_for_output("up", in_time);
    from.run({"python3", "-c",
              "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nfor i in "
              "range(1000): s.sendto(b'x', ('" +
                  to.address() + "', 9))"},
             in_time);
    sink.send_signal(SIGTERM);  // all that is to come is in the socket
    CHECK(sink.wait_exit(in_time) == ExitStatus::exited(0));
    return std::atoi(sink.out().c_str() + 3);
  };
  lab.lose(0, 1, 0.5);
  const int half = arrived(a, b);
  CHECK(half > 400);
  CHECK(half < 600);
  CHECK(arrived(b, a) == 1000);
  lab.lose(0, 1, 0);
  CHECK(arrived(a, b) == 1000);

  lab.unplug(1);
  CHECK(b.run({"cat", "/sys/class/net/eth0/carrier"}, in_time).out ==
        "0\n");  // to its own eyes too
  CHECK_FALSE(reaches(a, b));
  CHECK(reaches(a, c, 5s));
  lab.plug(1);
  CHECK(wait_until([&] { return reaches(a, b); }, in_time));
}

TEST_CASE("lab: a delay is what a round trip takes longer, can be changed, and loses nothing") {
  Lab lab(2);
  const auto round_trip_ms = [&] {
    const auto finished = lab.host(0).run(
        {"ping", "-n", "-q", "-c", "10", "-i", "0.01", lab.host(1).address()}, in_time);
    INFO(finished.out);
    CHECK(finished.status == ExitStatus::exited(0));
    const auto at = finished.out.find("min/avg/max/mdev = ");
    REQUIRE(at != std::string::npos);
    return std::atof(finished.out.c_str() + at +
                     19);  // the least: what a busy machine adds is not the cable's
  };
  CHECK(round_trip_ms() < 20);
  lab.delay(0, {.delay = 30ms});
  const double slow = round_trip_ms();
  CHECK(slow >= 60);
  CHECK(slow < 90);
  lab.delay(0, {.delay = 5ms, .jitter = 1ms});
  CHECK(round_trip_ms() < 40);
  // More than fits into one segment, with the checksums and segments that a real card would make.
  CHECK(
      lab.host(0).run({"sh", "-c", "head -c 3000000 /dev/urandom >$TMPDIR/sent"}, in_time).status ==
      ExitStatus::exited(0));
  Process server = lab.host(1).start({"python3", "-c",
                                      "import socket, sys\ns = socket.create_server(('', "
                                      "99))\nprint('up', flush=True)\nc = s.accept()[0]\n"
                                      "while (b := c.recv(65536)): sys.stdout.buffer.write(b)"});
  server.wait_for_output("up\n", in_time);
  const auto sent =
      lab.host(0).run({"python3", "-c",
                       "import os, socket\nc = socket.create_connection(('host1', 99))\n"
                       "c.sendall(open(os.environ['TMPDIR'] + '/sent', 'rb').read())"},
                      in_time);
  CHECK(sent.status == ExitStatus::exited(0));
  CHECK(server.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK((server.out().substr(3) == read_file(lab.host(0).file(lab.room() + "/tmp/sent"))));
  lab.cut(0, 1);
  CHECK_FALSE(reaches(lab.host(0), lab.host(1)));
  lab.heal();
  lab.power_off(0);
  lab.boot(0);
  CHECK(round_trip_ms() < 20);
}

TEST_CASE("lab: a frozen host does nothing until it thaws") {
  Lab lab(2);
  Process ticker =
      lab.host(0).start({"sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.01; done"});
  ticker.wait_for_output("3\n", in_time);
  lab.freeze(0);
  ticker.is_running();
  const std::string so_far = ticker.out();
  CHECK(reaches(lab.host(1), lab.host(0), 5s));  // its kernel lives: this is no power loss
  CHECK_FALSE(wait_until([&] { return ticker.out() != so_far; }, 200ms));
  lab.thaw(0);
  CHECK(wait_until([&] { return ticker.out().size() > so_far.size() + 10; }, in_time));
}

TEST_CASE(
    "lab: a power loss ends everything on that host without a word to the others, and a boot "
    "brings it back empty") {
  Lab lab(2);
  const Lab::Host one = lab.host(0), two = lab.host(1);
  two.run({"sh", "-c", "echo x >$TMPDIR/file"}, in_time);
  Process server = two.start({"python3", "-c",
                              "import socket\ns = socket.create_server(('', 99))\nprint('up', "
                              "flush=True)\nc = s.accept()[0]\n"
                              "print('taken', flush=True)\nc.recv(1)"});
  server.wait_for_output("up", in_time);
  // Ends when the other end does; a reset or an end of file would be a word.
  Process client = one.start(
      {"python3", "-c",
       "import socket\nc = socket.create_connection(('host1', 99))\nprint('up', flush=True)\n"
       "try: print('heard', c.recv(1), flush=True)\nexcept OSError as e: print('heard', e, "
       "flush=True)"});
  client.wait_for_output("up", in_time);
  server.wait_for_output("taken", in_time);
  lab.power_off(1);
  CHECK_FALSE(two.is_up());
  CHECK(server.wait_exit(in_time) == ExitStatus::killed_by(SIGKILL));
  CHECK_FALSE(reaches(one, two));
  CHECK_FALSE(wait_until([&] { return client.out().find("heard") != std::string::npos; }, 300ms));
  CHECK_THROWS_WITH(two.run({"true"}, in_time), doctest::Contains("no power"));
  CHECK_THROWS_WITH(lab.power_off(1), doctest::Contains("no power"));

  lab.boot(1);
  CHECK(two.is_up());
  CHECK(reaches(one, two, 5s));
  CHECK(two.run({"ls", lab.room() + "/tmp"}, in_time).out == "");
  CHECK_THROWS_WITH(lab.boot(1), doctest::Contains("up already"));
}

TEST_CASE("lab: nothing is left of it when the program that made it is killed") {
  const std::string links = interfaces();
  Process shell({bin("meshbus_lab_shell"), "3"}, {.stdin_pipe = true});
  shell.wait_for_output("quit\n", in_time);
  shell.write_stdin("on 2 hostname\non 1 sh -c 'setsid sleep 4711 & echo there'\n");
  shell.wait_for_output("there\n", in_time);
  CHECK(shell.out().find("host2\n") != std::string::npos);
  const std::string room = shell.out().substr(shell.out().find("/tmp/mblab-"), 17);
  REQUIRE(fs::is_directory(room));
  const auto holders = processes_with("hold " + room);
  REQUIRE(holders.size() == 2);  // and the first process of the lab, its child
  const std::string cgroup = holders.front().command.substr(holders.front().command.rfind(' ') + 1);
  REQUIRE((cgroup == "-" || fs::is_directory(cgroup)));
  shell.send_signal(SIGKILL);
  CHECK(shell.wait_exit(in_time) == ExitStatus::killed_by(SIGKILL));
  CHECK(wait_until([&] { return processes_with(room).empty(); }, in_time));
  CHECK_FALSE(fs::exists(room));
  CHECK_FALSE(fs::exists(cgroup));
  CHECK(interfaces() == links);
  CHECK(to_string(processes_with("sleep 4711")) == "");
}
