// Verbs that act on meshes have one rule: which meshes and ranks, which hosts, and what is said of
// those that were not reached (spec 12.5, 12.6).
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/integration/cli/schema_check.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// `meshbus WORDS... --hosts HOSTS`
Finished on_hosts(const std::string& hosts, Words words) {
  words.insert(words.end(), {"--hosts", hosts});
  return run_cli(words);
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// The command line on a terminal, where somebody types `answer`.
Finished on_terminal(const Words& words, const std::string& answer) {
  std::string line = "exec";
  for (const auto& word : cli(words)) line += " '" + word + "'";
  return run({"script", "-qec", line, "/dev/null"}, in_time, {.input = answer});
}

}  // namespace

TEST_CASE("cli: signal says nothing of a silent host that has none of the ranks that are meant") {
  StandingHost one, two;
  const auto hosts = one.address() + "," + two.address();
  SleepingJob mesh(hosts, "work", 2);
  const FrozenHost frozen(two.roles());
  const auto sent = on_hosts(hosts, {"signal", "CONT", "work[0]"});
  INFO(sent.err);
  CHECK(sent.status == ExitStatus::exited(0));
  CHECK_FALSE(says(sent.err, "told"));
  const auto missed = on_hosts(hosts, {"signal", "CONT", "work[1]", "--json"});
  CHECK(missed.status == ExitStatus::exited(1));
  const auto problem = "rank 1 on host " + two.address() + " not told: the host does not answer";
  CHECK(says(missed.err, problem));
  const auto report = parse_json(missed.out);
  REQUIRE(report.size() == 1);
  CHECK(report[0].at("ranks") == "none");
  CHECK(report[0].at("not_done") == json::array({problem}));
}

TEST_CASE("cli: signal asks the hosts that are named, and fails for ranks on others") {
  StandingHost one, two;
  SleepingJob mesh(one.address() + "," + two.address(), "work", 2);
  const auto sent = on_hosts(one.address(), {"signal", "CONT", "work", "--json"});
  INFO(sent.out << sent.err);
  CHECK(sent.status == ExitStatus::exited(1));
  const auto report = parse_json(sent.out);
  CHECK(report[0].at("ranks") == "0");
  CHECK(report[0].at("not_done") == json::array({"rank 1 on host " + two.address() +
                                                 " not asked: it is not among these hosts"}));
  CHECK(on_hosts(one.address(), {"signal", "CONT", "work[0]"}).status == ExitStatus::exited(0));
}

TEST_CASE("cli: stop on some of the hosts of a mesh is not all that was meant") {
  StandingHost one, two;
  SleepingJob mesh(one.address() + "," + two.address(), "work", 2);
  const auto some = on_hosts(one.address(), {"stop", "work[0]"});
  INFO(some.out << some.err);
  CHECK(some.status == ExitStatus::exited(0));
  SleepingJob other(one.address() + "," + two.address(), "other", 2);
  const auto stopped = on_hosts(one.address(), {"stop", "other", "--json"});
  INFO(stopped.out << stopped.err);
  CHECK(stopped.status == ExitStatus::exited(1));
  check_fits(stopped.out, "stop");
  const auto report = parse_json(stopped.out);
  CHECK(report[0].at("ranks").size() == 1);
  CHECK(report[0].at("not_done") == json::array({"rank 1 on host " + two.address() +
                                                 " not asked: it is not among these hosts"}));
}

TEST_CASE("cli: a pattern means all live meshes that it fits, in stop, signal and status") {
  StandingHost host;
  SleepingJob one(host.address(), "train_a", 2), two(host.address(), "train_b", 1),
      other(host.address(), "serve", 1);
  const auto status = on_hosts(host.address(), {"status", "train_*"});
  INFO(status.out << status.err);
  CHECK(status.status == ExitStatus::exited(0));
  CHECK(lines_of(status.out).size() == 3);  // with the titles
  CHECK_FALSE(says(status.out, "serve"));
  const auto sent = on_hosts(host.address(), {"signal", "CONT", "train_?[0]", "--json"});
  INFO(sent.err);
  CHECK(sent.status == ExitStatus::exited(0));
  CHECK(parse_json(sent.out).size() == 2);
  check_fits(sent.out, "signal");
  // All or nothing: one of them has no rank 1.
  const auto wrong = on_hosts(host.address(), {"stop", "train_*[1]"});
  CHECK(wrong.status == ExitStatus::exited(1));
  CHECK(says(wrong.err, "has no rank 1"));
  CHECK(one.left() == 2);
  const auto none = on_hosts(host.address(), {"stop", "trian_*"});
  CHECK(none.status == ExitStatus::exited(1));
  CHECK(says(none.err, "no mesh 'trian_*'"));
  const auto stopped = on_hosts(host.address(), {"stop", "train_*"});
  INFO(stopped.out << stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(lines_of(stopped.out).size() == 2);
  CHECK(one.left() + two.left() == 0);
  CHECK(other.left() == 1);
  CHECK(says(on_hosts(host.address(), {"stop", "train_*"}).err, "has ended already"));
}

TEST_CASE("cli: stop --all asks on a terminal, and needs --yes elsewhere") {
  StandingHost host;
  SleepingJob one(host.address(), "train", 1), two(host.address(), "serve", 1);
  const Words all = {"stop", "--all", "--hosts", host.address()};
  CHECK(run_cli(all).status == ExitStatus::exited(2));
  CHECK(says(run_cli(all).err, "--all needs --yes"));
  const auto refused = on_terminal(all, "n\n");
  INFO(refused.out << refused.err);
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(says(refused.out, "stop 2 meshes: "));
  CHECK(says(refused.out, "nothing was done"));
  CHECK(one.left() + two.left() == 2);
  const auto agreed = on_terminal(all, "y\n");
  INFO(agreed.out);
  CHECK(agreed.status == ExitStatus::exited(0));
  CHECK(one.left() + two.left() == 0);
  const auto again = on_hosts(host.address(), {"stop", "--all", "--yes"});
  CHECK(again.status == ExitStatus::exited(0));
  CHECK(says(again.err, "no live mesh on these hosts"));
}

TEST_CASE("cli: an empty name, as of a variable that is not set, stops nothing") {
  StandingHost host;
  SleepingJob mesh(host.address(), "train", 1);
  for (const Words& words : {Words{"stop", ""}, {"stop"}, {"signal", "TERM", ""}}) {
    const auto refused = on_hosts(host.address(), words);
    INFO(refused.out << refused.err);
    CHECK(refused.status == ExitStatus::exited(2));
    CHECK(says(refused.err, "no mesh is named"));
  }
  CHECK(mesh.left() == 1);
}

TEST_CASE("cli: status tells how ranks ended, failures apart from success") {
  StandingHost host;
  const auto job =
      run_cli({"run", "--hosts", host.address(), "--keep-going", "-n", "3", "--name", "mixed", "--",
               "sh", "-c", "case $RANK in 1) exit 255;; 2) kill -9 $$;; esac"});
  // The code is that of the rank that failed first, which is named.
  const bool is_killed_first = says(job.err, "first failure: rank 2 ");
  CHECK((is_killed_first || says(job.err, "first failure: rank 1 ")));
  CHECK(job.status == ExitStatus::exited(is_killed_first ? 137 : 255));
  const auto shown = on_hosts(host.address(), {"status", "mixed"});
  INFO(shown.out);
  CHECK(shown.status == ExitStatus::exited(0));
  CHECK(says(shown.out, "  Stopped  0      exit 0\n"));
  CHECK(says(shown.out, "  Failed   1      exit 255\n"));
  CHECK(says(shown.out, "  Failed   2      killed by SIGKILL"));
  // A wait asks whether all went well.
  CHECK(on_hosts(host.address(), {"status", "mixed", "--wait", "stopped"}).status ==
        ExitStatus::exited(1));
  CHECK(on_hosts(host.address(), {"status", "mixed[0]", "--json"}).status == ExitStatus::exited(0));
  const auto text = on_hosts(host.address(), {"status", "mixed", "--json"}).out;
  check_fits(text, "status");
  const auto groups = parse_json(text)[0].at("statuses");
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].at("exit_code") == 0);
  CHECK(groups[1].at("exit_code") == 255);
  CHECK(groups[1].at("status") == "Failed");
  CHECK(groups[2].at("signal") == 9);
}

TEST_CASE("cli: logs and stacks take a pattern, and tell the meshes apart") {
  StandingHost host;
  for (const std::string name : {"train_a", "train_b", "serve"})
    CHECK(run_cli({"run", "--hosts", host.address(), "-n", "1", "--name", name, "--", "echo",
                   "of " + name})
              .status == ExitStatus::exited(0));
  const auto logs = on_hosts(host.address(), {"logs", "train_*"});
  INFO(logs.out << logs.err);
  CHECK(logs.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(logs.out)).size() == 2);
  CHECK(says(logs.out, "[train_a/0 host=0,proc=0] of train_a\n"));
  CHECK(says(logs.out, "[train_b/0 host=0,proc=0] of train_b\n"));
  const auto folded = on_hosts(host.address(), {"logs", "train_*", "--fold"});
  CHECK(says(folded.out, "[train_b 0] of train_b\n"));
  CHECK(lines_of(on_hosts(host.address(), {"logs", "--all"}).out).size() == 3);
  const auto ended = on_hosts(host.address(), {"stacks", "train_*", "--kernel-only", "--json"});
  CHECK(ended.status == ExitStatus::exited(1));
  CHECK(parse_json(ended.out) == json::array());
  SleepingJob one(host.address(), "work_a", 1), two(host.address(), "work_b", 1);
  const auto stacks = on_hosts(host.address(), {"stacks", "work_*", "--kernel-only", "--json"});
  INFO(stacks.out << stacks.err);
  CHECK(parse_json(stacks.out).size() == 2);
}

TEST_CASE("cli: status --wait has one --timeout for all meshes that are meant") {
  StandingHost host;
  SleepingJob one(host.address(), "work_a", 1), two(host.address(), "work_b", 1),
      three(host.address(), "work_c", 1);
  const auto begin = std::chrono::steady_clock::now();
  const auto waited =
      on_hosts(host.address(), {"status", "work_*", "--wait", "stopped", "--timeout", "3s"});
  const auto took = std::chrono::steady_clock::now() - begin;
  INFO(waited.err);
  CHECK(waited.status == ExitStatus::exited(1));
  for (const std::string name : {"work_a-", "work_b-", "work_c-"}) CHECK(says(waited.err, name));
  // One after the other they would take 9 s.
  CHECK(took < 8s);
}

TEST_CASE("cli: status --wait waits for the ranks that are meant, and for no others") {
  StandingHost host;
  const auto sleep = own_sleep();
  Process job(cli({"run", "--hosts", host.address(), "-n", "3", "--name", "mixed", "--", "sh", "-c",
                   "test $RANK != 1 || exit 0; exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  const auto one = on_hosts(host.address(), {"status", "mixed[1]", "--wait", "stopped"});
  INFO(one.out << one.err);
  CHECK(one.status == ExitStatus::exited(0));
  CHECK(says(one.out, "  Stopped  1      exit 0\n"));
  const auto two =
      on_hosts(host.address(), {"status", "mixed[1-2]", "--wait", "stopped", "--timeout", "300ms"});
  CHECK(two.status == ExitStatus::exited(1));
  CHECK(says(two.err, ": not all of ranks 1-2 have reached Stopped in time"));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE("cli: status --wait waits for hosts and a mesh that are not there yet") {
  const TempDir runtime;
  const ProcessOptions alone{.environment = {{"XDG_RUNTIME_DIR", runtime.path().string()},
                                             {"MESHBUS_HOSTS", std::nullopt}}};
  Process waiter(cli({"status", "later", "--wait", "running"}), alone);
  CHECK_FALSE(wait_until([&] { return !waiter.is_running(); }, 500ms));
  const auto sleep = own_sleep();
  Process job(cli({"run", "-n", "2", "--name", "later", "--", "sh", "-c", "exec " + sleep}), alone);
  CHECK(waiter.wait_exit(in_time) == ExitStatus::exited(0));
  INFO(waiter.describe());
  CHECK(says(waiter.out(), "Running  0-1\n"));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
  const auto none = run_cli({"status", "never", "--wait", "running", "--timeout", "300ms"}, alone);
  CHECK(none.status == ExitStatus::exited(1));
}
