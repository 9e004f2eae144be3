// `meshbus chaos` (spec 18.4): hosts that allow it are disturbed on purpose, and end that by
// themselves, whatever becomes of the command and of the agent.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

const Words kAllowed = {"--set", "chaos.allowed=true"};

/// A mesh of ranks, each of which is a shell with a child that sleeps.
class Sleepers {
 public:
  Sleepers(const std::string& hosts, const std::string& name, std::size_t ranks,
           const Words& more = {})
      : count_(ranks), process_(cli(words_of(hosts, name, more))) {
    const bool are_up =
        wait_until([&] { return sleepers(sleep_).size() == count_; }, in_time) &&
        wait_until(
            [&] {
              return run_cli({"status", "--hosts", hosts, name, "--wait", "running"}).status ==
                     ExitStatus::exited(0);
            },
            in_time);
    INFO(process_.describe());
    REQUIRE(are_up);
  }
  std::vector<ProcessInfo> all() const { return sleepers(sleep_); }
  /// All of them and their parents, for a message.
  std::string to_string() const {
    std::string text;
    for (const auto& one : all()) {
      const auto parent = find_process(one.parent);
      text += one.to_string() + ", child of " + (parent ? parent->to_string() : "nobody") + "\n";
    }
    return text;
  }
  /// How many of the sleeping processes stand still, and their parents with them.
  std::size_t stopped() const {
    std::size_t count = 0;
    for (const auto& one : all()) {
      const auto parent = find_process(one.parent);
      if (one.state == 'T' && parent && parent->state == 'T') ++count;
    }
    return count;
  }
  /// Whether none of these processes, nor a parent of one, stands still.
  bool go_on() const {
    const auto is_stopped = [](const ProcessInfo& one) {
      const auto parent = find_process(one.parent);
      return one.state == 'T' || (parent && parent->state == 'T');
    };
    const auto found = all();
    return found.size() == count_ && std::none_of(found.begin(), found.end(), is_stopped);
  }
  Process& process() { return process_; }

 private:
  Words words_of(const std::string& hosts, const std::string& name, const Words& more) const {
    Words words = {"run", "--hosts", hosts, "--name", name, "-n", std::to_string(count_)};
    words.insert(words.end(), more.begin(), more.end());
    // The child is in a process group of its own, as that of a shell with job control is.
    words.insert(words.end(), {"--", "sh", "-c", "setsid -w " + sleep_ + "; exit 0"});
    return words;
  }

  std::string sleep_ = own_sleep();
  std::size_t count_;
  Process process_;
};

/// `meshbus chaos` with a schedule of one deed.
Words one_deed(const std::string& hosts, const std::string& kind, const std::string& hold,
               const Words& more) {
  Words words = {"chaos",   "--hosts", hosts,   "--kinds", kind,     "--seed", "1",
                 "--every", hold,      "--for", hold,      "--hold", hold};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

json report_of(Words words, int code = 0) {
  words.push_back("--json");
  const auto done = run_cli(words);
  INFO(done.out << done.err);
  REQUIRE(done.status == ExitStatus::exited(code));
  return parse_json(done.out);
}

/// Whether supervision said something with this text about a deed.
bool is_noticed(const json& deed, const std::string& text) {
  const auto& noticed = deed.at("noticed");
  return std::any_of(noticed.begin(), noticed.end(), [&](const json& notice) {
    return has(notice.at("what").get<std::string>(), text);
  });
}

}  // namespace

TEST_CASE("cli: chaos is refused without the setting, and beyond the bounds of a host") {
  StandingHost closed;
  const Sleepers quiet(closed.address(), "quiet", 1);
  const auto refused = run_cli(one_deed(closed.address(), "freeze", "1s", {"--ranks", "quiet"}));
  INFO(refused.out << refused.err);
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(has(refused.out, "chaos.allowed is false"));
  CHECK(quiet.go_on());

  StandingHost open({"--set", "chaos.allowed=true", "--set", "chaos.longest=2s"});
  const Sleepers work(open.address(), "work", 1);
  const auto longer = run_cli(one_deed(open.address(), "freeze", "3s", {"--ranks", "work"}));
  CHECK(longer.status == ExitStatus::exited(1));
  CHECK(has(longer.out, "chaos.longest"));
  CHECK(work.go_on());
  // The trail has both, and whose they were.
  const auto trail = run_cli({"audit", "--hosts", open.address()});
  INFO(trail.out << trail.err);
  CHECK(has(trail.out, "freeze for 3000 ms"));
  CHECK(has(trail.out, "uid "));
}

TEST_CASE("cli: chaos is for operators, not for observers") {
  const TempDir dir;
  for (const auto& who :
       {Words{"host", "127.0.0.1"}, Words{"operator", "alice"}, Words{"observer", "eve"}}) {
    Words words = {"keygen", "--dir", dir.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  const auto as = [&](const std::string& name) {
    return ProcessOptions{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()},
                                          {"MESHBUS_KEYS_OWN", dir / (name + ".key")}}};
  };
  StandingHost host({"--bind", "tcp:127.0.0.1:0", "--set", "chaos.allowed=true"},
                    {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}});
  const auto words = one_deed(host.address(), "freeze", "200ms", {"--roles", "agent"});
  const auto refused = run_cli(words, as("eve"));
  INFO(refused.out << refused.err);
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(has(refused.out, "unauthorised"));
  const auto done = run_cli(words, as("alice"));
  INFO(done.out << done.err);
  CHECK(done.status == ExitStatus::exited(0));
  const auto trail = run_cli({"audit", "--hosts", host.address()}, as("alice"));
  CHECK(has(trail.out, "observer eve"));
  CHECK(has(trail.out, "operator alice"));
}

TEST_CASE("cli: a rank that chaos kills is reported beside what supervision said of it") {
  StandingHost host(kAllowed);
  const Sleepers work(host.address(), "work", 2, {"--restart", "on-failure"});
  const json report = report_of(one_deed(host.address(), "kill", "3s", {"--ranks", "work[1]"}));
  REQUIRE(report.at("deeds").size() == 1);
  const json& deed = report.at("deeds")[0];
  CHECK(deed.at("confirmed") == true);
  CHECK(deed.at("rank") == 1);
  CHECK(is_noticed(deed, "SIGKILL"));
  CHECK(report.at("unnoticed") == 0);
  CHECK(run_cli({"why", "--hosts", host.address(), "work"}).status == ExitStatus::exited(0));
}

TEST_CASE("cli: supervision says that a mesh proc that chaos froze is frozen") {
  StandingHost host(
      {"--set", "chaos.allowed=true", "--set", "heartbeat=500ms", "--set", "session.away=2s"});
  const TempDir dir;
  Process run(cli({"run", "--hosts", host.address(), "--name", "work", "--mesh", "-n", "2", "--",
                   bin("echo_proc"), dir.path().string()}));
  REQUIRE(wait_until(
      [&] {
        return run_cli({"status", "--hosts", host.address(), "work", "--wait", "running"}).status ==
               ExitStatus::exited(0);
      },
      in_time));
  const json report = report_of(one_deed(host.address(), "freeze", "6s", {"--ranks", "work[1]"}));
  INFO(report.dump(2));
  CHECK(is_noticed(report.at("deeds")[0], "frozen: stopped by a signal"));
  run.send_signal(SIGTERM);
  run.wait_exit(in_time);
}

TEST_CASE("cli: a host disturbs as many at a time as it may, and a stop ends a frozen rank") {
  StandingHost host({"--set", "chaos.allowed=true", "--set", "chaos.most=1"});
  Sleepers work(host.address(), "work", 2);
  Process chaos(cli({"chaos", "--hosts", host.address(), "--ranks", "work", "--kinds", "freeze",
                     "--every", "500ms", "--for", "1s", "--hold", "1m", "--most", "2", "--json"}));
  REQUIRE(wait_until([&] { return work.stopped() == 1; }, in_time));
  CHECK(chaos.wait_exit(in_time) == ExitStatus::exited(1));
  const json report = parse_json(chaos.out());
  REQUIRE(report.at("deeds").size() == 2);
  CHECK(report.at("deeds")[0].at("confirmed") == true);
  CHECK(has(report.at("deeds")[1].at("error").get<std::string>(), "chaos.most"));

  Process longer(cli({"chaos", "--hosts", host.address(), "--ranks", "work", "--kinds", "freeze",
                      "--every", "1m", "--for", "1m", "--hold", "1m"}));
  REQUIRE(wait_until([&] { return work.stopped() == 1; }, in_time));
  const auto stopped = run_cli({"stop", "--hosts", host.address(), "work"});
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(work.to_string() == "");
  longer.send_signal(SIGTERM);
  CHECK(longer.wait_exit(in_time) == ExitStatus::exited(143));
}

TEST_CASE("cli: a frozen rank goes on in time with all its processes when chaos is killed") {
  StandingHost host(kAllowed);
  const Sleepers work(host.address(), "work", 2);
  Process chaos(cli(one_deed(host.address(), "freeze", "4s", {"--ranks", "work[0]"})));
  {
    const bool is_frozen = wait_until([&] { return work.stopped() == 1; }, in_time);
    INFO(chaos.describe());
    REQUIRE(is_frozen);
  }
  const auto begin = std::chrono::steady_clock::now();
  chaos.send_signal(SIGKILL);
  chaos.wait_exit(in_time);
  CHECK(work.stopped() == 1);
  REQUIRE(wait_until([&] { return work.go_on(); }, in_time));
  CHECK(std::chrono::steady_clock::now() - begin > 1s);
}

TEST_CASE("cli: a frozen rank goes on in time when its agent is killed meanwhile") {
  StandingHost host(kAllowed);
  const Sleepers work(host.address(), "work", 1);
  Process chaos(cli(one_deed(host.address(), "freeze", "4s", {"--ranks", "work"})));
  REQUIRE(wait_until([&] { return work.stopped() == 1; }, in_time));
  const auto agent = host.roles().agent;
  REQUIRE(::kill(agent, SIGKILL) == 0);
  REQUIRE(wait_until([&] { return is_gone(agent); }, in_time));
  CHECK(wait_until([&] { return work.go_on(); }, in_time));
  chaos.wait_exit(in_time);
}

TEST_CASE("cli: chaos that is interrupted reports what it did") {
  StandingHost host(kAllowed);
  const Sleepers work(host.address(), "work", 1);
  Process chaos(cli({"chaos", "--hosts", host.address(), "--ranks", "work", "--kinds", "freeze",
                     "--every", "10m", "--for", "10m", "--hold", "2s", "--json"}));
  REQUIRE(wait_until([&] { return work.stopped() == 1; }, in_time));
  REQUIRE(wait_until([&] { return work.go_on(); }, in_time));
  chaos.send_signal(SIGINT);
  CHECK(chaos.wait_exit(in_time) == ExitStatus::exited(130));
  const json report = parse_json(chaos.out());
  CHECK(report.at("interrupted") == true);
  REQUIRE(report.at("deeds").size() == 1);
  CHECK(report.at("deeds")[0].at("confirmed") == true);
}

TEST_CASE("cli: a slow rank stands still again and again, and runs at the end") {
  StandingHost host(kAllowed);
  const Sleepers work(host.address(), "work", 1);
  Process chaos(
      cli(one_deed(host.address(), "slow", "3s", {"--ranks", "work", "--percent", "60"})));
  for (int i = 0; i < 3; ++i) {
    CHECK(wait_until([&] { return work.stopped() == 1; }, in_time));
    CHECK(wait_until([&] { return work.stopped() == 0; }, in_time));
  }
  CHECK(chaos.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(work.go_on());
}

TEST_CASE("cli: chaos kills and freezes roles, and the job goes on") {
  StandingHost host({"--set", "chaos.allowed=true", "--set", "frozen.limit=10s"});
  const Sleepers work(host.address(), "work", 1);
  const auto before = host.roles();
  for (const std::string role : {"broker", "agent"}) {
    const json report = report_of(one_deed(host.address(), "kill", "1s", {"--roles", role}));
    CHECK(report.at("deeds")[0].at("confirmed") == true);
    CHECK(is_noticed(report.at("deeds")[0], "the " + role));
  }
  REQUIRE(wait_until(
      [&] {
        const auto after = find_roles(before.warden);
        return after && after->agent != before.agent && after->broker != before.broker;
      },
      in_time));
  const auto roles = *find_roles(before.warden);
  CHECK(roles.keeper == before.keeper);
  for (const pid_t pid : {roles.broker, roles.agent}) {
    const std::string role = pid == roles.agent ? "agent" : "broker";
    Process chaos(cli(one_deed(host.address(), "freeze", "2s", {"--roles", role})));
    REQUIRE(wait_until(
        [&] {
          const auto process = find_process(pid);
          return process && process->state == 'T';
        },
        in_time));
    chaos.send_signal(SIGKILL);
    chaos.wait_exit(in_time);
    CHECK(wait_until(
        [&] {
          const auto process = find_process(pid);
          return process && process->state != 'T';
        },
        in_time));
  }
  CHECK(work.go_on());
}

TEST_CASE("cli: a link that chaos cuts is up again in time") {
  StandingHost one({"--insecure", "--bind", "tcp:127.0.0.1:0", "--set", "chaos.allowed=true"}),
      other({"--insecure", "--bind", "tcp:127.0.0.1:0", "--set", "chaos.allowed=true"});
  const std::string hosts = one.address() + "," + other.address();
  Sleepers work(hosts, "work", 2);
  const json report = report_of(one_deed(hosts, "cut", "3s", {"--links", hosts}));
  const json& deed = report.at("deeds")[0];
  INFO(report.dump(2));
  CHECK(deed.at("confirmed") == true);
  CHECK(is_noticed(deed, "the link is down"));
  CHECK(is_noticed(deed, "the link is up again"));
  const auto trail = run_cli({"audit", "--hosts", one.address()});
  CHECK(has(trail.out, "cut " + other.address() + " for 3000 ms"));
  // The job has heard of nothing, and what its launcher says gets through.
  CHECK(work.go_on());
  work.process().send_signal(SIGTERM);
  work.process().wait_exit(in_time);
  CHECK(wait_until([&] { return work.all().empty(); }, in_time));
}

TEST_CASE("cli: chaos takes space on a disk within bounds, and a dry run does nothing") {
  StandingHost host(kAllowed);
  const json report = report_of(one_deed(host.address(), "fill", "300ms", {"--bytes", "1MiB"}));
  CHECK(report.at("deeds")[0].at("confirmed") == true);
  const auto more = run_cli(one_deed(host.address(), "fill", "300ms", {"--bytes", "1000000GiB"}));
  CHECK(more.status == ExitStatus::exited(1));
  CHECK(has(more.out, "more than half"));
  const json dry = report_of({"chaos", "--hosts", host.address(), "--roles", "agent", "--kinds",
                              "kill", "--seed", "5", "--dry-run"});
  CHECK(dry.at("dry_run") == true);
  CHECK(dry.at("plan").size() == 6);
  CHECK(dry.at("deeds").empty());
}
