// Which hosts a command means: --hosts, --hostfile, --context, MESHBUS_HOSTS, the context in use;
// and hosts that are known by tcp or IPv6.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>

#include "common/base/unique_fd.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using meshbus::UniqueFd;
using nlohmann::json;

namespace {

/// What starting a program may add on a busy machine.
constexpr std::chrono::milliseconds kBusy(4000);

const Words kPlainTcp = {"--insecure", "--bind", "tcp:127.0.0.1:0"};

ProcessOptions with(const std::string& variable, const std::string& value) {
  return {.environment = {{variable, value}}};
}

/// The hosts that a `ps --json` shows.
Words shown_hosts(const Finished& finished) {
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  Words hosts;
  const json shown = parse_json(finished.out);
  for (const auto& host : shown.at("hosts")) hosts.push_back(host.at("host").get<std::string>());
  return hosts;
}

/// A tcp port that takes connections and says nothing: a host that is frozen as a whole.
struct SilentPort {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string address;
  SilentPort() {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
    REQUIRE(::listen(fd.get(), 8) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0);
    address = "tcp:127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }
};

}  // namespace

TEST_CASE(
    "cli: hosts come from --hosts, a file, MESHBUS_HOSTS and the context in use, the first of "
    "these that says any") {
  StandingHost one, two, three, four;
  const TempDir dir;
  dir.write("hosts", "# both\n" + two.address() + "  # the second\n\n");
  const std::string file = dir / "hosts";
  const Words ps = {"ps", "--json"};
  const auto ps_of = [&](const Words& more, ProcessOptions options = {}) {
    Words words = ps;
    words.insert(words.end(), more.begin(), more.end());
    return shown_hosts(run_cli(words, std::move(options)));
  };
  REQUIRE(run_cli({"context", "add", "mine", "--hosts", four.address()}).status ==
          ExitStatus::exited(0));
  CHECK(ps_of({}).size() == 4);  // a context that is not in use says nothing
  REQUIRE(run_cli({"context", "use", "mine"}).status == ExitStatus::exited(0));
  const auto from_environment = with("MESHBUS_HOSTS", three.address());
  CHECK(ps_of({"--hosts", one.address()}, from_environment) == Words{one.address()});
  CHECK(ps_of({"--hostfile", file}, from_environment) == Words{two.address()});
  CHECK(ps_of({}, from_environment) == Words{three.address()});
  CHECK(ps_of({"--context", "mine"}, from_environment) == Words{four.address()});
  CHECK(ps_of({}) == Words{four.address()});

  // run goes by the same rules.
  const Words tell = {"--no-prefix", "--", "sh", "-c", "echo $MESHBUS_ADDR"};
  const auto run_of = [&](Words words, ProcessOptions options = {}) {
    words.insert(words.begin(), "run");
    words.insert(words.end(), tell.begin(), tell.end());
    const auto finished = run_cli(words, std::move(options));
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    return finished.out.substr(0, finished.out.find(",sh_"));
  };
  CHECK(run_of({"--hosts", one.address()}, from_environment) == one.address());
  CHECK(run_of({"--hostfile", file}, from_environment) == two.address());
  CHECK(run_of({}, from_environment) == three.address());
  CHECK(run_of({}) == four.address());
  // A number is that of hosts on this machine, in the environment too.
  CHECK(run_of({"--hosts", "1"}).find(four.address()) == std::string::npos);
  CHECK(run_cli({"run", "--no-prefix", "--", "sh", "-c", "echo $WORLD_SIZE"},
                with("MESHBUS_HOSTS", "2"))
            .out == "2\n2\n");

  REQUIRE(run_cli({"context", "use", "--none"}).status == ExitStatus::exited(0));
  CHECK(ps_of({}).size() == 4);
  REQUIRE(run_cli({"context", "remove", "mine"}).status == ExitStatus::exited(0));
}

TEST_CASE("cli: what is wrong with a list of hosts is said with the place it came from") {
  const TempDir dir;
  dir.write("hosts", "tcp:h1:7420\nnonsense\n");
  const std::string file = dir / "hosts";
  const auto refused = [](const Words& words, ProcessOptions options = {}) {
    const auto finished = run_cli(words, std::move(options));
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(finished.out == "");
    return finished.err;
  };
  for (const std::string verb : {"ps", "ping", "run"}) {
    const auto words = [&verb](const Words& flags) {
      Words all = {verb};
      all.insert(all.end(), flags.begin(), flags.end());
      if (verb == "run") all.insert(all.end(), {"--", "true"});
      return all;
    };
    CHECK(refused(words({"--hosts", "tcp:h1"}))
              .starts_with("meshbus: --hosts: tcp:h1 has no port; "));
    CHECK(refused(words({"--hosts", "tcp:h[4-1]:7420"}))
              .find("--hosts: tcp:h[4-1]:7420: the range 4-1 goes backwards") != std::string::npos);
    CHECK(refused(words({"--hosts", ""})).find("--hosts: is empty") != std::string::npos);
    CHECK(refused(words({"--hostfile", file}))
              .starts_with("meshbus: hostfile " + file + ", line 2: nonsense is no address"));
    CHECK(refused(words({"--hostfile", dir / "none"})).find(dir / "none: No such file") !=
          std::string::npos);
    CHECK(refused(words({"--hostfile", "/dev/null"})).find("names no host") != std::string::npos);
    CHECK(refused(words({"--hosts", "tcp:h1:1", "--hostfile", file})).find("exclude each other") !=
          std::string::npos);
    CHECK(refused(words({}), with("MESHBUS_HOSTS", "tcp:h1:1,h2"))
              .starts_with("meshbus: MESHBUS_HOSTS: h2 is no address; did you mean "));
    CHECK(refused(words({"--context", "elsewhere"})).find("there is no context elsewhere") !=
          std::string::npos);
  }
  // And so is a host that does not answer, unless its address was just typed.
  const std::string absent = "unix:" + (environment_root() / "run" / "no-such-socket").string();
  const auto run_there = run_cli({"run", "--", "true"}, with("MESHBUS_HOSTS", absent));
  CHECK(run_there.status == ExitStatus::exited(125));
  CHECK(run_there.err.find("MESHBUS_HOSTS: attaching to hosts: host 0 (" + absent + ")") !=
        std::string::npos);
}

TEST_CASE("cli: contexts are made, listed, shown, used and removed, and hold settings") {
  StandingHost host;
  const auto ok = [](const Words& words) {
    const auto finished = run_cli(words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
    return finished.out;
  };
  CHECK(ok({"context", "list"}) == "");
  ok({"context", "add", "lab", "--hosts", "tcp:h[1-2]:7420", "--set", "lease=7s"});
  ok({"context", "add", "here", "--hosts", host.address(), "--set", "terminate.grace=3s"});
  CHECK(run_cli({"context", "add", "lab", "--hosts", "tcp:x:1"}).err.find("--replace") !=
        std::string::npos);
  ok({"context", "use", "here"});
  CHECK(ok({"context", "list"}) == "* here  " + host.address() + "\n  lab  tcp:h[1-2]:7420\n");
  CHECK(ok({"context", "show", "lab"}) ==
        "context lab\n  tcp:h1:7420\n  tcp:h2:7420\n  --set lease=7s\n");
  const json shown = parse_json(ok({"context", "show", "--json"}));
  CHECK(shown == json({{"context", "here"},
                       {"in_use", true},
                       {"hosts", host.address()},
                       {"settings", {{"terminate.grace", "3s"}}}}));
  CHECK(parse_json(ok({"context", "list", "--json"})).size() == 2);

  // For this user alone.
  const auto folder = environment_root() / "config" / "meshbus" / "contexts";
  for (const char* name : {"lab.json", "here.json", "current"}) {
    struct stat status{};
    REQUIRE(::stat((folder / name).c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
  }
  // What somebody else could have written is not believed.
  REQUIRE(::chmod((folder / "lab.json").c_str(), 0666) == 0);
  const auto refused = run_cli({"ps", "--context", "lab"});
  CHECK(refused.status == ExitStatus::exited(2));
  CHECK(refused.err.find("can be written by others: chmod go-w") != std::string::npos);
  REQUIRE(::chmod((folder / "lab.json").c_str(), 0600) == 0);

  // Its settings are read by the command that uses it: a wrong lease is an error there.
  const auto broken =
      run_cli({"context", "add", "broken", "--hosts", host.address(), "--set", "lease=soon"});
  CHECK(broken.status == ExitStatus::exited(2));
  CHECK(broken.err.find("soon") != std::string::npos);
  CHECK(run_cli({"context", "use", "labb"}).err.find("did you mean lab?") != std::string::npos);
  CHECK(run_cli({"context", "use"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"context", "remove", "none-such"}).status == ExitStatus::exited(1));
  ok({"context", "remove", "here"});
  CHECK(run_cli({"context", "show"}).err.find("no context is in use") != std::string::npos);
  ok({"context", "remove", "lab"});
}

TEST_CASE("cli: hosts of this machine that are known by tcp are found, by their sockets") {
  StandingHost plain, known(kPlainTcp);
  REQUIRE(known.address().starts_with("tcp:127.0.0.1:"));
  const auto hosts = shown_hosts(run_cli({"ps", "--json"}));
  CHECK(sorted(hosts) == sorted(Words{plain.address(), known.address()}));
  const auto ping = run_cli({"ping"});
  INFO(ping.out << ping.err);
  CHECK(ping.status == ExitStatus::exited(0));
  CHECK(ping.out.find(known.address() + "  ") != std::string::npos);
  // They do not reach each other: each is asked by itself.
  const auto stop = run_cli({"stop", "work"});
  CHECK(stop.status == ExitStatus::exited(1));
  CHECK(stop.err.find("no mesh 'work' on these hosts") != std::string::npos);
  const auto down = run_cli({"shutdown"});
  INFO(down.out << down.err);
  CHECK(down.status == ExitStatus::exited(0));
  CHECK(down.out.starts_with("2 hosts are down"));
  CHECK(plain.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(known.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("cli: a dead host costs ps and status no more than their --timeout") {
  StandingHost host(kPlainTcp);
  const SilentPort silent;
  const auto finished = run_cli(
      {"ps", "--json", "--timeout", "3s", "--hosts", host.address() + "," + silent.address});
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  const json shown = parse_json(finished.out);
  REQUIRE(shown.at("hosts").size() == 2);
  CHECK(shown.at("hosts")[0].at("error") == nullptr);
  CHECK(shown.at("hosts")[1].at("error").is_string());
  CHECK(finished.elapsed < 3s + kBusy);
  // The dead one first: it is not the way to the other.
  const auto turned = run_cli(
      {"ps", "--json", "--timeout", "4s", "--hosts", silent.address + "," + host.address()});
  INFO(turned.out << turned.err);
  CHECK(parse_json(turned.out).at("hosts")[1].at("error") == nullptr);
  CHECK(turned.elapsed < 4s + kBusy);
}

TEST_CASE("cli: hosts at IPv6 addresses" * doctest::test_suite(need::ipv6)) {
  const Words options = {"--insecure", "--bind", "tcp:[::1]:0"};
  StandingHost one(options), two(options);
  REQUIRE(one.address().starts_with("tcp:[::1]:"));
  REQUIRE_FALSE(one.address().ends_with(":0"));
  const auto finished =
      run_cli({"run", "--hosts", one.address() + "," + two.address(), "-n", "4", "--no-prefix",
               "--", "sh", "-c", "echo $RANK $MASTER_ADDR $MESHBUS_ADDR"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  const auto lines = sorted(lines_of(finished.out));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("0 ::1 " + one.address()));
  CHECK(lines[3].starts_with("3 ::1 " + two.address()));
  // Over a link, and by a list in the environment.
  const auto ping = run_cli({"ping"}, with("MESHBUS_HOSTS", one.address() + "," + two.address()));
  INFO(ping.out << ping.err);
  CHECK(ping.status == ExitStatus::exited(0));
  CHECK(run_cli({"shutdown", "--hosts", one.address() + "," + two.address()}).status ==
        ExitStatus::exited(0));
}
