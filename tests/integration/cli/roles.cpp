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

/// Everything that commands ask of hosts, the most harmful last.
const std::vector<Attempt> kAttempts = {
    {{"ps"}, Right::look},
    {{"status", "work"}, Right::look},
    {{"logs", "work"}, Right::look},
    {{"ping"}, Right::look},
    {{"audit"}, Right::operate},
    {{"run", "--", "true"}, Right::operate},
    {{"signal", "WINCH", "work"}, Right::operate},
    {{"exec", "work", "--", "true"}, Right::operate},
    {{"stop", "work"}, Right::operate},
    {{"drain", "--hold"}, Right::operate},
    {{"drain", "--resume"}, Right::operate},
    {{"shutdown"}, Right::operate},
};

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
  for (const std::string name : {"eve", "carl"}) {
    for (const Attempt& attempt : kAttempts) {
      const auto done = run_cli(for_hosts(hosts, attempt.words), as(name));
      CAPTURE(name);
      CAPTURE(attempt.words.front());
      INFO(done.out << done.err);
      CHECK((done.status == ExitStatus::exited(0)) == (attempt.needed == Right::look));
      if (attempt.needed == Right::look) continue;
      CHECK((done.out + done.err).find("takes role operate, the sender has ") != std::string::npos);
    }
    CHECK(sleepers(sleep).size() == 1);
    CHECK(job.is_running());
  }
  // The same commands of an operator do what they say.
  for (const Attempt& attempt : kAttempts) {
    const auto done = run_cli(for_hosts(hosts, attempt.words), as("alice"));
    CAPTURE(attempt.words.front());
    INFO(done.out << done.err);
    CHECK(done.status == ExitStatus::exited(0));
  }
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
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
