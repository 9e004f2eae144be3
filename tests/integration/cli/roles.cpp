// The commands that each role may give, and that those above it are refused
// (docs/guide/security.md).
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

enum class Right { look, operate };

struct Attempt {
  Words words;
  Right needed;
};

/// Everything that commands ask of hosts, the most harmful last. `folder`: for what is copied.
std::vector<Attempt> attempts_with(const TempDir& folder) {
  return {
      {{"ps"}, Right::look},
      {{"top", "--once"}, Right::look},
      {{"status", "work"}, Right::look},
      {{"logs", "work"}, Right::look},
      {{"ping"}, Right::look},
      {{"why", "work"}, Right::look},
      {{"audit"}, Right::operate},
      {{"run", "--", "true"}, Right::operate},
      {{"signal", "WINCH", "work"}, Right::operate},
      {{"exec", "work", "--", "true"}, Right::operate},
      {{"cp", "work:0:/etc/hostname", folder / "here"}, Right::operate},
      {{"cp", "/etc/hostname", "work:0:" + (folder / "there")}, Right::operate},
      {{"stacks", "work"}, Right::operate},
      {{"grow", "work"}, Right::operate},
      {{"shrink", "work"}, Right::operate},
      {{"stop", "work"}, Right::operate},
      {{"drain", "--hold"}, Right::operate},
      {{"drain", "--resume"}, Right::operate},
      {{"shutdown"}, Right::operate},
  };
}

/// The command for those hosts; its own words stay at the end.
Words for_hosts(const std::string& hosts, Words words) {
  words.insert(words.begin() + 1, {"--hosts", hosts});
  return words;
}

}  // namespace

TEST_CASE("roles: observers and clients look, and everything above that is refused") {
  const TempDir dir;
  const auto make = [&](const std::string& role, const std::string& name) {
    REQUIRE(run_cli({"keygen", "--dir", dir.path().string(), role, name}).status ==
            ExitStatus::exited(0));
  };
  make("host", "127.0.0.1");
  make("observer", "eve");
  make("client", "carl");
  make("operator", "alice");
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  const auto as = [&](const std::string& name) {
    auto options = here;
    options.environment.emplace_back("MESHBUS_KEYS_OWN", dir / (name + ".key"));
    return options;
  };
  StandingHost host({"--bind", "tcp:127.0.0.1:0"}, here);
  const std::string hosts = host.address();
  const auto sleep = own_sleep();
  Process job(cli(for_hosts(hosts, {"run", "--name", "work", "--", "sh", "-c", "exec " + sleep})),
              as("alice"));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  const auto attempts = attempts_with(dir);
  for (const std::string name : {"eve", "carl"}) {
    for (const Attempt& attempt : attempts) {
      const auto done = run_cli(for_hosts(hosts, attempt.words), as(name));
      CAPTURE(name);
      CAPTURE(attempt.words.front());
      INFO(done.out << done.err);
      CHECK((done.status == ExitStatus::exited(0)) == (attempt.needed == Right::look));
      if (attempt.needed == Right::look) continue;
      CHECK((done.out + done.err).find("needs role operator, the sender has role ") !=
            std::string::npos);
    }
    CHECK(sleepers(sleep).size() == 1);
    CHECK(job.is_running());
  }
  // The same commands of an operator do what they say.
  for (const Attempt& attempt : attempts) {
    const auto done = run_cli(for_hosts(hosts, attempt.words), as("alice"));
    CAPTURE(attempt.words.front());
    INFO(done.out << done.err << "\nthe job: " << job.describe());
    CHECK(done.status == ExitStatus::exited(0));
  }
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("roles: the ways of hands that stay open are closed to observers and clients, too") {
  const TempDir dir;
  for (const Words& who : {Words{"host", "127.0.0.1"},
                           {"observer", "eve"},
                           {"client", "carl"},
                           {"operator", "alice"}}) {
    Words words = {"keygen", "--dir", dir.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  const StandingHost host({"--bind", "tcp:127.0.0.1:0"}, here);
  auto operator_options = here;
  operator_options.environment.emplace_back("MESHBUS_KEYS_OWN", dir / "alice.key");
  operator_options.stdin_pipe = true;
  Process job(cli({"run", "--hosts", host.address(), "--name", "work", "--stdin", "all", "--", "sh",
                   "-c", "echo up; while read line; do echo heard $line; done"}),
              operator_options);
  job.wait_for_output("up", in_time);
  constexpr std::string_view kRefusal = "needs role operator, the sender has role ";
  for (const std::string name : {"eve", "carl"}) {
    CAPTURE(name);
    auto as = here;
    as.environment.emplace_back("MESHBUS_KEYS_OWN", dir / (name + ".key"));
    as.stdin_pipe = true;
    // They may read what the rank writes, and write nothing to it.
    Process attach(cli({"attach", "--hosts", host.address(), "--tail", "1", "work:0"}), as);
    attach.wait_for_output("up", in_time);
    attach.write_stdin("hello\n");
    CHECK(wait_until(
        [&] {
          attach.is_running();
          return attach.err().find(kRefusal) != std::string::npos;
        },
        in_time));
    Process forward(cli({"forward", "--hosts", host.address(), "0:work:0:1"}), as);
    forward.wait_for_output("->", in_time);
    const std::string at = forward.out().substr(0, forward.out().find(' '));
    run({"/usr/bin/python3", "-c",
         "import socket, sys\n"
         "host, port = sys.argv[1].split(':')\n"
         "socket.create_connection((host, int(port))).makefile('rb').read()\n",
         at},
        in_time);
    CHECK(wait_until(
        [&] {
          forward.is_running();
          return forward.err().find(kRefusal) != std::string::npos;
        },
        in_time));
  }
  CHECK(job.out().find("heard") == std::string::npos);
  CHECK(job.is_running());
}

TEST_CASE("keygen: a key that has expired is refused with a sentence") {
  const TempDir dir;
  const auto make = [&](const Words& words) {
    Words all = {"keygen", "--dir", dir.path().string()};
    all.insert(all.end(), words.begin(), words.end());
    return run_cli(all);
  };
  REQUIRE(make({"host", "127.0.0.1"}).status == ExitStatus::exited(0));
  const auto made = make({"--json", "operator", "alice", "--expires", "2s"});
  INFO(made.err);
  REQUIRE(made.status == ExitStatus::exited(0));
  CHECK(parse_json(made.out).front().at("expires").get<std::string>().starts_with("20"));
  const auto limited = make({"--json", "host", "h2", "--ceiling", "client"});
  CHECK(parse_json(limited.out).front().at("ceiling") == "client");
  CHECK(read_file(dir / "authorised/host/h2.pub").find(" ceiling=client\n") != std::string::npos);
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  const StandingHost host({"--bind", "tcp:127.0.0.1:0"}, here);
  auto alice = here;
  alice.environment.emplace_back("MESHBUS_KEYS_OWN", dir / "alice.key");
  Finished done;
  REQUIRE(wait_until(
      [&] {
        done = run_cli({"run", "--hosts", host.address(), "--", "true"}, alice);
        // A run during which the key expires ends in another way.
        return done.status == ExitStatus::exited(125) &&
               done.err.find("the key of operator alice expired at 20") != std::string::npos;
      },
      in_time));
  CHECK(done.err.find("meshbus keygen --rotate operator alice") != std::string::npos);
  // A new one works at once.
  REQUIRE(make({"--rotate", "operator", "alice"}).status == ExitStatus::exited(0));
  CHECK(wait_until(
      [&] {
        return run_cli({"run", "--hosts", host.address(), "--", "true"}, alice).status ==
               ExitStatus::exited(0);
      },
      in_time));
  for (const Words& wrong : {Words{"operator", "bob", "--expires", "yesterday"},
                             {"operator", "bob", "--expires", "2001-01-01"},
                             {"host", "h3", "--ceiling", "king"}})
    CHECK(make(wrong).status == ExitStatus::exited(2));
}
