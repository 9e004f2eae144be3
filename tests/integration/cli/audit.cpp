// `meshbus audit`: the trail of what principals did on hosts (spec 13.6), and what programs and
// peers wrote, on screens (12.7).
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

/// Keys of a host on 127.0.0.1, of the operator alice and the observer eve.
struct KeySet {
  KeySet() {
    make({"host", "127.0.0.1"});
    make({"operator", "alice"});
    make({"observer", "eve"});
  }
  void make(const Words& who) {
    Words words = {"keygen", "--dir", dir.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  ProcessOptions here() const {
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  }
  ProcessOptions as(const std::string& name) const {
    auto options = here();
    options.environment.emplace_back("MESHBUS_KEYS_OWN", dir / (name + ".key"));
    return options;
  }
  TempDir dir;
};

nlohmann::json audit(const std::string& hosts, const Words& more, const ProcessOptions& by) {
  Words words = {"audit", "--hosts", hosts, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const auto done = run_cli(words, by);
  INFO(done.err);
  REQUIRE(done.status == ExitStatus::exited(0));
  return parse_json(done.out).at("entries");
}

/// The entries with that verb.
std::vector<nlohmann::json> with_verb(const nlohmann::json& entries, const std::string& verb) {
  std::vector<nlohmann::json> found;
  for (const auto& entry : entries) {
    if (entry.at("verb") == verb) found.push_back(entry);
  }
  return found;
}

/// A host that was shut down and has left its trail beside its logs; it can be started again.
struct EndedHost {
  EndedHost() {
    StandingHost host(options);
    CHECK(run_cli({"shutdown", "--hosts", address}).status == ExitStatus::exited(0));
    host.process().wait_exit(in_time);
  }
  TempDir logs;
  // The port is free again: the host that had it has ended.
  std::string address = StandingHost({"--bind", "tcp:127.0.0.1:0", "--insecure"}).address();
  Words options{"--bind", address, "--insecure", "--set", "logs.directory=" + logs.path().string()};
};

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

}  // namespace

TEST_CASE("attacks S8: it is written down which key did what, and what was refused") {
  const KeySet keys;
  const StandingHost host({"--bind", "tcp:127.0.0.1:0"}, keys.here());
  const std::string hosts = host.address();
  const auto job = run_cli({"run", "--hosts", hosts, "--name", "work", "-x", "PASSWORD=hunter2",
                            "--", "sh", "-c", "exit 0"},
                           keys.as("alice"));
  INFO(job.err);
  CHECK(job.status == ExitStatus::exited(0));
  const auto sleep = own_sleep();
  Process other(
      cli({"run", "--hosts", hosts, "--name", "other", "--", "sh", "-c", "exec " + sleep}),
      keys.as("alice"));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  CHECK(run_cli({"stop", "other", "--hosts", hosts}, keys.as("eve")).status ==
        ExitStatus::exited(1));
  CHECK(run_cli({"stop", "other", "--hosts", hosts}, keys.as("alice")).status ==
        ExitStatus::exited(0));
  other.wait_exit(in_time);
  Process third(
      cli({"run", "--hosts", hosts, "--name", "third", "--", "sh", "-c", "exec " + sleep}),
      keys.as("alice"));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  CHECK(run_cli({"signal", "KILL", "third", "--hosts", hosts}, keys.as("alice")).status ==
        ExitStatus::exited(0));
  third.wait_exit(in_time);

  const auto all = audit(hosts, {}, keys.as("alice"));
  const auto spawns = with_verb(all, "spawn");
  REQUIRE(spawns.size() == 3);
  CHECK(spawns[0].at("by") == "operator alice");
  CHECK(spawns[0].at("role") == "operator");
  CHECK(spawns[0].at("address").get<std::string>().starts_with("127.0.0.1"));
  CHECK(spawns[0].at("mesh").get<std::string>().starts_with("work-"));
  CHECK(spawns[0].at("ranks") == "0");
  CHECK(spawns[0].at("what") == "sh -c exit 0");
  CHECK(spawns[0].at("outcome") == "ok");
  CHECK(all.dump().find("hunter2") == std::string::npos);
  const auto stops = with_verb(audit(hosts, {"--mesh", "other"}, keys.as("alice")), "stop");
  // The launcher may stop what is stopped already.
  REQUIRE(stops.size() >= 2);
  CHECK(stops[0].at("by") == "observer eve");
  CHECK(stops[0].at("outcome").get<std::string>().find("refused: ") == 0);
  CHECK(stops[1].at("by") == "operator alice");
  CHECK(stops[1].at("outcome") == "ok");
  CHECK(with_verb(all, "connect").size() >= 4);
  for (const auto& entry : audit(hosts, {"--by", "eve"}, keys.as("alice")))
    CHECK(entry.at("by") == "observer eve");
  // Times are whole seconds: the oldest entry is old enough after one.
  CHECK(wait_until(
      [&] {
        const auto recent = audit(hosts, {"--since", "1ms"}, keys.as("alice"));
        return recent.empty() || recent.front() != all.front();
      },
      in_time));

  // What ended a mesh names the principal, to those that may know.
  const auto why = run_cli({"why", "other", "--hosts", hosts}, keys.as("alice"));
  CHECK(why.out.find(" (asked for by operator alice at 127.0.0.1") != std::string::npos);
  CHECK(why.out.find("client-") == std::string::npos);
  const auto signalled = run_cli({"why", "third", "--hosts", hosts}, keys.as("alice"));
  CHECK(signalled.out.find("SIGKILL was asked for (asked for by operator alice at 127.0.0.1") !=
        std::string::npos);
  const auto less = run_cli({"why", "other", "--hosts", hosts}, keys.as("eve"));
  CHECK(less.out.find(" (by a command or launcher at ") != std::string::npos);
  CHECK(less.out.find("client-") == std::string::npos);
  CHECK(less.out.find("operator alice") == std::string::npos);

  // It is for operators.
  const auto refused = run_cli({"audit", "--hosts", hosts}, keys.as("eve"));
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(refused.err.find("needs role operator") != std::string::npos);
  // On a terminal it is a table.
  const auto table = run_cli({"audit", "--hosts", hosts, "--mesh", "work"}, keys.as("alice"));
  CHECK(table.out.find("operator alice") != std::string::npos);
  CHECK(table.out.find("sh -c exit 0") != std::string::npos);
}

TEST_CASE(
    "audit: local users are named by their uid, and a trail outlives its host beside the logs") {
  const TempDir logs;
  {
    StandingHost host({"--set", "logs.directory=" + logs.path().string()});
    CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status ==
          ExitStatus::exited(0));
    const auto spawns = with_verb(audit(host.address(), {}, {}), "spawn");
    REQUIRE(spawns.size() == 1);
    CHECK(spawns[0].at("by") == "uid " + std::to_string(::geteuid()));
    CHECK(spawns[0].at("address").get<std::string>().find(", pid ") != std::string::npos);
    CHECK(run_cli({"shutdown", "--hosts", host.address()}).status == ExitStatus::exited(0));
    host.process().wait_exit(in_time);
  }
  std::string written;
  for (const auto& entry : fs::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("audit-"))
      written += read_file(entry.path().string());
  }
  CHECK(written.find("\"verb\":\"spawn\"") != std::string::npos);
  CHECK(written.find("\"verb\":\"shutdown\"") != std::string::npos);
}

TEST_CASE("audit: a host that is started again at its address goes on with its trail") {
  const EndedHost ended;
  const StandingHost again(ended.options);
  CHECK(with_verb(audit(ended.address, {}, {}), "shutdown").size() == 1);
  const auto one = audit(ended.address, {"--verb", "shutdown,spawn"}, {});
  REQUIRE(one.size() == 1);
  CHECK(one[0].at("verb") == "shutdown");
}

TEST_CASE("audit: the table says how many entries are missing, whatever it is asked for") {
  const EndedHost ended;
  // As after a full disk, or too many entries in a second.
  for (const auto& entry : fs::directory_iterator(ended.logs.path())) {
    if (!entry.path().filename().string().starts_with("audit-")) continue;
    std::ofstream(entry.path(), std::ios::app)
        << R"({"time":"2026-11-25T01:37:03.123Z","host":")" << ended.address
        << R"(","by":"operator alice","verb":"join","outcome":"ok","lost_before":12})" << '\n';
  }
  const StandingHost again(ended.options);
  for (const Words& filter : {Words{}, Words{"--verb", "shutdown"}, Words{"--verb", "upgrade"}}) {
    Words words{"audit", "--hosts", ended.address};
    words.insert(words.end(), filter.begin(), filter.end());
    const auto table = run_cli(words);
    INFO(table.err);
    CHECK(table.status == ExitStatus::exited(0));
    CHECK(table.err.find("12 entries of host " + ended.address +
                         " before 2026-11-25T01:37:03.123Z are missing") != std::string::npos);
  }
  const auto recent = run_cli({"audit", "--hosts", ended.address, "--since", "1h"});
  CHECK(recent.err.find("are missing") == std::string::npos);
}

TEST_CASE("attacks S9: what others wrote rules no screen") {
  StandingHost host;
  const std::string evil = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\rroot# \x7f";
  const TempDir dir;
  std::ofstream(dir / "evil") << "printf '" << evil << "\\n' >&2; exit 3\n";
  const auto job =
      run_cli({"run", "--hosts", host.address(), "--name", "evil", "--", "sh", dir / "evil", evil});
  CHECK(job.status == ExitStatus::exited(3));
  // The last words of `run`: what the rank wrote is quoted there again.
  const auto words = job.err.substr(job.err.find("meshbus:"));
  CHECK_FALSE(has_control_characters(words));
  for (const Words& words_of_command : {Words{"ps", "--all"},
                                        {"status"},
                                        {"why", "evil"},
                                        {"audit"},
                                        {"ps", "--all", "--json"},
                                        {"why", "evil", "--json"},
                                        {"audit", "--json"}}) {
    Words command = words_of_command;
    command.insert(command.end(), {"--hosts", host.address()});
    const auto shown = run_cli(command);
    CAPTURE(command.front());
    INFO(shown.err);
    CHECK(shown.out.find("evil") != std::string::npos);
    CHECK_FALSE(has_control_characters(shown.out));
    CHECK_FALSE(has_control_characters(shown.err));
  }
  // The reason that another command gives, in the last words of the run that it ends.
  Process ended(
      cli({"run", "--hosts", host.address(), "--", "sh", "-c", "echo up; exec sleep 600"}));
  ended.wait_for_output("up", in_time);
  const auto drained = run_cli({"drain", "--hosts", host.address(), "--reason", evil});
  CHECK(drained.status == ExitStatus::exited(0));
  CHECK(ended.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(ended.err().find("was stopped by ") != std::string::npos);
  CHECK_FALSE(has_control_characters(ended.err()));
}

TEST_CASE("attacks S10: ranks run as another user, and gain no rights" *
          doctest::test_suite(need::root)) {
  StandingHost host;
  const auto as = [&](const Words& settings, const std::string& script) {
    Words words = {"run", "--no-prefix", "--hosts", host.address()};
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    const auto done = run_cli(words);
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(0));
    return done.out;
  };
  const std::string show = "id -u; id -g; grep NoNewPrivs /proc/self/status";
  CHECK(as({"--uid", "nobody"}, show) == "65534\n65534\nNoNewPrivs:\t0\n");
  CHECK(as({"--uid", "4711", "--no-new-privs"}, show) == "4711\n4711\nNoNewPrivs:\t1\n");
  CHECK(as({"--uid", "4711", "--gid", "daemon"}, show) == "4711\n1\nNoNewPrivs:\t0\n");
  // It can read neither the host's directory nor its processes.
  CHECK(as({"--uid", "nobody"},
           "ls " + host_directories().front().string() +
               " >/dev/null 2>&1 && echo open; cat /proc/" + std::to_string(host.roles().broker) +
               "/environ >/dev/null 2>&1 && echo open; echo done") == "done\n");
  const auto wrong = run_cli({"run", "--uid", "no-such-user", "--", "true"});
  CHECK(wrong.status == ExitStatus::exited(2));
  CHECK(wrong.err.find("this machine knows no user 'no-such-user'") != std::string::npos);
}
