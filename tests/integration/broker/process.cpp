// meshbus-broker as a process: its flags, its lifeline, its signals, its socket file.
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>

#include <csignal>
#include <filesystem>

#include "common/base/release.h"
#include "common/base/unique_fd.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

std::string program() {
  return bin("meshbus-broker");
}

/// The warden's side of a broker: lifeline and secret.
struct Warden {
  Warden() {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    lifeline.reset(pair[0]);
    other_end.reset(pair[1]);
    secret.reset(::memfd_create("secret", MFD_CLOEXEC));
    const std::string text(TokenMaker::kSecretSize, 's');
    REQUIRE(::write(secret.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  Process start(std::vector<std::string> flags) {
    std::vector<std::string> argv = {program(), "--lifeline-fd", std::to_string(other_end.get()),
                                     "--secret-fd", std::to_string(secret.get())};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return Process(argv, {.inherit = {other_end.get(), secret.get()}});
  }
  /// The next text of the broker but its release, and what comes with its listening sockets; empty
  /// at the end.
  std::string hear() {
    other_end.reset();
    std::string text(4096, '\0');
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(lifeline.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto size = ::recv(lifeline.get(), text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (text.starts_with("release ")) {
      release = text.substr(8);
    } else if (text == "listener") {
      ++num_listeners;
    } else {
      return text;
    }
    return hear();
  }
  void say(const std::string& text) {
    REQUIRE(::send(lifeline.get(), text.data(), text.size(), MSG_NOSIGNAL) > 0);
  }

  UniqueFd lifeline, other_end, secret;
  std::string release;
  std::size_t num_listeners = 0;
};

}  // namespace

TEST_CASE("meshbus-broker: is ready, serves, and stops in order when the warden says so") {
  TempDir dir;
  Warden warden;
  const std::string path = dir / "b";
  Process broker = warden.start({"--bind", "unix:" + path});
  CHECK(warden.hear() == "ready unix:" + path);
  CHECK(warden.release == this_release());
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);

  Loop loop;
  TestPeer launcher(loop, "ipc://" + path, launcher_hello());
  TestPeer proc(loop, "ipc://" + path, proc_hello(*HostAddr::parse("unix:" + path), 0));
  launcher.up();
  proc.up();
  CHECK(launcher.call(proc.address(), "hello") == "re: hello");

  // What a terminal sends is not for the broker to follow.
  for (const int one : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP}) broker.send_signal(one);
  CHECK(launcher.call(proc.address(), "still") == "re: still");

  warden.say("stop 100");
  CHECK(broker.wait_exit(10s) == ExitStatus::exited(EX_OK));
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(broker.err().empty());
  REQUIRE(loop.until([&] { return launcher.downs == 1; }));
}

TEST_CASE("meshbus-broker: ends at once when the warden is gone, and on SIGTERM") {
  TempDir dir;
  {
    Warden warden;
    Process broker = warden.start({"--bind", "unix:" + (dir / "b")});
    warden.hear();
    warden.lifeline.reset();
    CHECK(broker.wait_exit(5s) == ExitStatus::exited(EX_OK));
  }
  {
    Warden warden;
    Process broker = warden.start({"--bind", "unix:" + (dir / "b")});
    warden.hear();
    broker.send_signal(SIGTERM);
    CHECK(broker.wait_exit(5s) == ExitStatus::exited(EX_OK));
  }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE(
    "meshbus-broker: after a kill, the next one takes over the socket file, and the peers come "
    "back") {
  TempDir dir;
  const std::string path = dir / "b";
  Loop loop;
  std::optional<TestPeer> launcher, proc;
  {
    Warden warden;
    Process broker = warden.start({"--bind", "unix:" + path});
    warden.hear();
    launcher.emplace(loop, "ipc://" + path, launcher_hello());
    proc.emplace(loop, "ipc://" + path, proc_hello(*HostAddr::parse("unix:" + path), 0));
    launcher->up();
    proc->up();
    broker.send_signal(SIGKILL);
    CHECK(broker.wait_exit(5s) == ExitStatus::killed_by(SIGKILL));
    REQUIRE(loop.until([&] { return launcher->downs == 1 && proc->downs == 1; }));
  }
  CHECK(std::filesystem::exists(path));
  Warden warden;
  Process broker = warden.start({"--bind", "unix:" + path});
  CHECK(warden.hear() == "ready unix:" + path);
  CHECK(warden.num_listeners == 1);
  launcher->up();
  proc->up();
  CHECK(launcher->call(proc->address(), "again") == "re: again");
}

TEST_CASE(
    "meshbus-broker: what it cannot start with, it says in one line, with the exit code of its "
    "kind") {
  TempDir dir;
  const auto refusal = [&](const std::vector<std::string>& flags, int code,
                           const std::string& text) {
    std::vector<std::string> argv = {program()};
    argv.insert(argv.end(), flags.begin(), flags.end());
    const auto finished = run(argv, 20s);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(code));
    CHECK(finished.err.find(text) != std::string::npos);
    CHECK(finished.out.empty());
  };
  refusal({}, 2, "--bind");
  refusal({"--bind", "nonsense"}, 2, "--bind nonsense");
  refusal({"--bind", "tcp:127.0.0.1:0"}, 2, "--insecure");
  refusal({"--bind", "unix:" + (dir / "b"), "--advertise", "tcp:*:1"}, 2, "tcp:*:1");
  refusal({"--bind", "unix:" + (dir / "none") + "/b"}, EX_UNAVAILABLE, dir / "none");
  refusal({"--bind", "unix:" + (dir / "b"), "--set", "heartbeet=1s"}, 2, "heartbeat");
  refusal({"--bind", "unix:" + dir.write("file", "not a socket")}, EX_UNAVAILABLE, "no socket");
  CHECK(read_file(dir.path() / "file") == "not a socket");

  Warden warden;
  Process broker = warden.start({"--bind", "unix:" + (dir / "b")});
  warden.hear();
  refusal({"--bind", "unix:" + (dir / "b")}, EX_UNAVAILABLE, "another process serves it");
  Warden second;
  Process loser = second.start({"--bind", "unix:" + (dir / "b")});
  CHECK(second.hear().starts_with("failed "));
  CHECK(loser.wait_exit(5s) == ExitStatus::exited(EX_UNAVAILABLE));
  CHECK(broker.is_running());
}

TEST_CASE("meshbus-broker: --insecure is said loudly, and the port becomes concrete") {
  TempDir dir;
  Warden warden;
  Process broker = warden.start({"--bind", "unix:" + (dir / "b"), "--bind", "tcp:127.0.0.1:0",
                                 "--advertise", "tcp:localhost:0", "--insecure"});
  const std::string ready = warden.hear();
  REQUIRE(ready.starts_with("ready tcp:localhost:"));
  CHECK_FALSE(ready.ends_with(":0"));
  broker.wait_for_output("WARNING: --insecure", 5s);
  const auto host = *HostAddr::parse(ready.substr(6));
  Loop loop;
  TestPeer launcher(loop, "tcp://127.0.0.1:" + std::to_string(host.port()), launcher_hello());
  launcher.up();
  CHECK(launcher.bus->self()->host() == host);
}

TEST_CASE(
    "meshbus-broker: a local peer that is frozen stays registered, and answers when it goes on") {
  TempDir dir;
  const std::string path = dir / "b";
  Loop loop;
  const auto broker = start_broker(loop, "unix:" + path, {{"heartbeat", "50ms"}});
  // The frozen peer is a broker with a link here: it takes a whole process.
  Warden warden;
  Process other = warden.start({"--bind", "unix:" + (dir / "other"), "--set", "heartbeat=50ms"});
  warden.hear();
  TestPeer here(loop, "ipc://" + path, launcher_hello());
  TestPeer there(loop, "ipc://" + (dir / "other"), launcher_hello());
  here.up();
  there.up();
  REQUIRE(there.call(here.address(), "link up").has_value());
  CHECK(broker->peers() == 2);
  other.send_signal(SIGSTOP);
  loop.run_for(500ms);
  CHECK(broker->peers() == 2);
  other.send_signal(SIGCONT);
  REQUIRE(loop.until([&] { return there.bus->is_up(); }));
  CHECK(there.call(here.address(), "still") == "re: still");
  CHECK(broker->peers() == 2);
}

TEST_CASE(
    "meshbus-broker: a frozen host on tcp is missed within seconds, though peers are given "
    "longer") {
  TempDir dir;
  Loop loop;
  const std::vector<std::string> tcp = {"--bind", "tcp:127.0.0.1:0", "--advertise",
                                        "tcp:127.0.0.1:0", "--insecure"};
  const auto broker = start_broker(loop, "unix:" + (dir / "b"), {}, [](BrokerOptions& options) {
    options.binds.push_back(*HostAddr::parse("tcp:127.0.0.1:0"));
    options.advertise = *HostAddr::parse("tcp:127.0.0.1:0");
    options.insecure = true;
  });
  Warden warden;
  std::vector<std::string> flags = {"--bind", "unix:" + (dir / "other")};
  flags.insert(flags.end(), tcp.begin(), tcp.end());
  Process other = warden.start(flags);
  warden.hear();
  TestPeer here(loop, endpoint_of(*broker), launcher_hello());
  TestPeer there(loop, "ipc://" + (dir / "other"), launcher_hello());
  here.up();
  there.up();
  REQUIRE(there.call(here.address(), "link up").has_value());
  REQUIRE(broker->peers() == 2);
  // The other broker opened the link, so it is our end of it that must notice: by the time to live
  // of the other's first PING.
  loop.run_for(1s);
  other.send_signal(SIGSTOP);
  CHECK(loop.until([&] { return broker->peers() == 1; }, 5s));
  other.send_signal(SIGCONT);
  CHECK(here.bus->is_up());
}
