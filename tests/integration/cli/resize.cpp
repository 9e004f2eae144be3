// `meshbus grow` and `meshbus shrink` (spec 18.2), with real hosts and jobs.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// The launcher of the job takes orders when it has heard that its ranks are there, which is later
/// than they are.
void wait_for_launcher(const std::string& hosts, const ProcessOptions& as = {}) {
  REQUIRE(wait_until(
      [&] {
        const auto refused =
            run_cli({"shrink", "work", "--by", "99", "--timeout", "60s", "--hosts", hosts}, as);
        return !refused.err.empty() && !has(refused.err, "still being started");
      },
      in_time));
}

/// Two hosts, and a job on the first one whose ranks sleep.
struct Growing {
  explicit Growing(const Words& options = {}, const std::string& script = {})
      : process(job_words(options, script)) {
    wait_until([&] { return live() == 2 || !process.is_running(); }, in_time);
    INFO(process.describe());
    REQUIRE(live() == 2);
    wait_for_launcher(one.address());
  }
  Words job_words(const Words& options, const std::string& script) const {
    Words words = {"run", "--hosts", one.address(), "-n", "2", "--name", "work"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", script + "exec " + sleep});
    return cli(words);
  }
  std::size_t live() const { return sleepers(sleep).size(); }
  /// A rank is there before its shell has made way for its sleep.
  bool has_live(std::size_t ranks) const {
    return wait_until([&] { return live() == ranks; }, in_time);
  }
  /// It is written before the order is answered, and read later.
  bool says(const std::string& words) {
    return wait_until([&] { return has(process.err(), words); }, in_time);
  }
  Finished order(Words words) const {
    // With a time that is given, a host that is slow to answer is waited for.
    words.insert(words.end(), {"--timeout", "60s", "--hosts", one.address() + "," + two.address()});
    return run_cli(words);
  }
  /// The order is refused in one line with that message, and the job is as it was.
  void refuse(const Words& words, const std::string& message, int code = 1) {
    const auto before = live();
    const auto done = order(words);
    INFO(done.out << done.err);
    CHECK(done.status == ExitStatus::exited(code));
    CHECK(done.out.empty());
    REQUIRE_FALSE(done.err.empty());
    CHECK(has(lines_of(done.err).front(), message));
    CHECK(lines_of(done.err).size() == 1);
    CHECK(has_live(before));
  }

  std::string sleep = own_sleep();
  StandingHost one;
  StandingHost two;
  Process process;
};

}  // namespace

TEST_CASE("cli: grow adds ranks to a running job, shrink takes them away, and the job goes on") {
  Growing job({}, "echo here $RANK of $WORLD_SIZE; ");
  auto done = job.order({"grow", "work", "--on", job.two.address()});
  INFO(done.out << done.err << job.process.describe());
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(done.out.starts_with("grew work-"));
  CHECK(done.out.ends_with(": ranks 2-3 on " + job.two.address() + "; it has 4 ranks now\n"));
  CHECK(job.has_live(4));
  CHECK(wait_until([&] { return has(job.process.out(), "[work/3 host=1,proc=1] here 3 of 4"); },
                   in_time));
  // Without --on: the hosts that it has, those with the fewest blocks first.
  done = job.order({"grow", "work", "--by", "2", "--json"});
  const auto grown = parse_json(done.out);
  CHECK(grown.at("size") == 8);
  CHECK(grown.at("ranks") == "4-7");
  CHECK(grown.at("hosts") == nlohmann::json({job.one.address(), job.two.address()}));
  CHECK(has(job.order({"status", "work"}).out, "Running  0-7\n"));
  CHECK(has(job.order({"ps"}).out, "{host: 4, proc: 2}"));
  done = job.order({"shrink", "work", "--by", "3"});
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(has(done.out, ": ranks 2-7 on " + job.two.address() + " (2 blocks), " + job.one.address() +
                          "; it has 2 ranks now\n"));
  CHECK(job.has_live(2));
  CHECK(has(job.order({"status", "work"}).out, "Running  0-1\n"));
  // Their end was no failure: the job is there, and its number of ranks grows again.
  CHECK(job.process.is_running());
  CHECK(job.order({"grow", "work"}).status == ExitStatus::exited(0));
  CHECK(job.says("grown by ranks 2-3 to 4, as "));
  CHECK(job.says("shrunk by ranks 2-7 to 2, as "));
  CHECK(job.order({"stop", "work"}).status == ExitStatus::exited(0));
  CHECK(job.process.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(job.has_live(0));
}

TEST_CASE("cli: grow and shrink say in one line what is wrong, and the job is as it was") {
  Growing job;
  job.refuse({"grow", "nobody"}, "no mesh 'nobody' on these hosts");
  job.refuse({"grow", "work[0]"}, "name a whole mesh, not ranks as in 'work[0]'", 2);
  for (const std::string blocks : {"0", "-1", "two", ""})
    job.refuse({"grow", "work", "--by=" + blocks}, "--by", 2);
  job.refuse({"grow", "work", "--on", "tcp:h1"}, "--on: 'tcp:h1'", 2);
  job.refuse({"shrink", "work"}, "no rank would be left; stop the mesh instead");
  job.refuse({"shrink", "work", "--by", "7"}, "no rank would be left; stop the mesh instead");
  job.refuse({"grow", "work", "--on", "unix:/nowhere/bus"}, "host unix:/nowhere/bus: ");
  CHECK(
      run_cli({"drain", "--hold", "--reason", "new kernel", "--hosts", job.two.address()}).status ==
      ExitStatus::exited(0));
  job.refuse({"grow", "work", "--on", job.two.address()}, "new kernel");
  CHECK(job.process.is_running());
  job.process.send_signal(SIGINT);
  CHECK(job.process.wait_exit(in_time) == ExitStatus::exited(130));
  job.refuse({"grow", "work"}, "mesh 'work' has ended already");
}

TEST_CASE("cli: a torch job has the ranks that it began with") {
  Growing job({"--torch"});
  job.refuse({"grow", "work"}, "a torch job has the ranks that it began with");
  job.refuse({"shrink", "work"}, "a torch job has the ranks that it began with");
}

TEST_CASE("cli: a job grows onto its idle spares first") {
  const auto sleep = own_sleep();
  const StandingHost one;
  const StandingHost two;
  const auto both = one.address() + "," + two.address();
  Process job(cli({"run", "--hosts", both, "--use", "1", "-n", "1", "--name", "work", "--", "sh",
                   "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  wait_for_launcher(both);
  const auto done =
      run_cli({"grow", "work", "--by", "2", "--timeout", "60s", "--hosts", both, "--json"});
  INFO(done.err << job.describe());
  CHECK(parse_json(done.out).at("hosts") == nlohmann::json({two.address(), one.address()}));
  CHECK(wait_until([&] { return sleepers(sleep).size() == 3; }, in_time));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}

TEST_CASE("cli: an order that is under way when the job fails, or when its launcher is killed") {
  const std::string script =
      "test $RANK -lt 2 || exec " + own_sleep() + "; exec " + bin("meshbus_test_proc") + " serve";
  for (const bool is_killed : {false, true}) {
    CAPTURE(is_killed);
    const StandingHost one;
    const StandingHost two;
    const auto both = one.address() + "," + two.address();
    Process job(cli({"run", "--mesh", "--hosts", one.address(), "-n", "2", "--name", "work", "--",
                     "sh", "-c", script}));
    REQUIRE(run_cli({"status", "work", "--wait", "running", "--hosts", one.address()}).status ==
            ExitStatus::exited(0));
    wait_for_launcher(both);
    // Its ranks never become ready.
    Process order(
        cli({"grow", "work", "--on", two.address(), "--timeout", "60s", "--hosts", both}));
    const auto live = [&] {
      return parse_json(run_cli({"ps", "--json", "--hosts", both}).out).dump();
    };
    REQUIRE(wait_until([&] { return has(live(), "\"rank\":3"); }, in_time));
    if (is_killed) {
      job.send_signal(SIGKILL);
    } else {
      CHECK(run_cli({"signal", "KILL", "work[0]", "--hosts", both}).status ==
            ExitStatus::exited(0));
    }
    const auto status = order.wait_exit(in_time);
    INFO(order.describe() << job.describe());
    CHECK(status == ExitStatus::exited(1));
    CHECK(lines_of(order.err()).size() == 1);
    if (is_killed) {
      CHECK(has(order.err(), "its owner "));
      CHECK(has(order.err(), " has not answered: "));
    } else {
      CHECK(job.wait_exit(in_time) == ExitStatus::exited(137));
    }
    CHECK(wait_until(
        [&] {
          for (const auto* host : {&one, &two}) {
            const auto roles = host->roles();
            if (!children_of(roles.keeper).empty()) return false;
          }
          return true;
        },
        in_time));
  }
}

TEST_CASE("cli: an observer's key orders no other size; who did is in the audit trail") {
  const TempDir dir;
  for (const Words& who :
       {Words{"host", "127.0.0.1"}, {"observer", "eve"}, {"operator", "alice"}}) {
    Words words = {"keygen", "--dir", dir.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  const ProcessOptions here{.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  const auto as = [&](const std::string& name) {
    auto options = here;
    options.environment.emplace_back("MESHBUS_KEYS_OWN", dir / (name + ".key"));
    return options;
  };
  const StandingHost host({"--bind", "tcp:127.0.0.1:0"}, here);
  const auto sleep = own_sleep();
  Process job(
      cli({"run", "--hosts", host.address(), "--name", "work", "--", "sh", "-c", "exec " + sleep}),
      as("alice"));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  wait_for_launcher(host.address(), as("alice"));
  const auto refused = run_cli({"grow", "work", "--hosts", host.address()}, as("eve"));
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(has(refused.err, "needs role operator, the sender has role observer"));
  CHECK(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  const auto done = run_cli({"grow", "work", "--hosts", host.address()}, as("alice"));
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  const auto trail = parse_json(
      run_cli({"audit", "--json", "--mesh", "work", "--hosts", host.address()}, as("alice")).out);
  std::vector<std::string> orders;
  for (const auto& entry : trail.at("entries")) {
    if (entry.at("verb") == "order to shrink")
      CHECK(has(entry.at("outcome").get<std::string>(), "no rank would be left"));
    if (entry.at("verb") == "order to grow")
      orders.push_back(entry.at("by").get<std::string>() + ": " +
                       entry.at("outcome").get<std::string>().substr(0, 8));
  }
  // The last one is what the host has passed on to the launcher.
  REQUIRE(orders.size() >= 2);
  CHECK(orders[0] == "observer eve: refused:");
  CHECK(orders[1].starts_with("operator alice: ok"));
  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}
