// `meshbus run --use --gang one`: the ranks of a lost host move to a spare, and the others run on
// (spec 18.1).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A rank holds the lock of its number as long as it runs, and ends with 9 when another process has
/// it. It says what it is, and ends with 0 when there is a file `go`.
const std::string kHold =
    "exec 9>>\"$1/rank$RANK\"; flock -n 9 || { echo overlap; exit 9; }\n"
    "echo rank $RANK attempt $MESHBUS_RESTARTS pid $$ node $NODE_RANK local $LOCAL_RANK of "
    "$WORLD_SIZE\n"
    "while [ ! -e \"$1/go\" ]; do sleep 0.05 9>&-; done\n";

/// A job whose ranks hold their locks.
class HoldingJob {
 public:
  explicit HoldingJob(const Words& options) : process_(words(options)) {}
  Process& process() { return process_; }

  /// The lines of that attempt of that rank.
  std::size_t attempts(int rank, int attempt) const {
    return lines("rank " + std::to_string(rank) + " attempt " + std::to_string(attempt) + " ");
  }
  std::size_t lines(const std::string& word) const {
    std::size_t found = 0;
    for (const auto& line : lines_of(process_.out())) found += line.find(word) != std::string::npos;
    return found;
  }
  bool wait_for(int rank, int attempt) {
    const bool is_there =
        wait_until([&] { return attempts(rank, attempt) == 1 || !process_.is_running(); }, in_time);
    INFO(process_.describe());
    CHECK(attempts(rank, attempt) == 1);
    return is_there;
  }
  bool says(const std::string& words) {
    return wait_until([&] { return has(process_.err(), words) || !process_.is_running(); },
                      in_time) &&
           has(process_.err(), words);
  }
  void go() { std::ofstream(dir_ / "go").put('x'); }
  /// It ends with 0, and no rank ran twice at a time.
  void check_end() {
    go();
    const auto status = process_.wait_exit(in_time);
    INFO(process_.describe());
    CHECK(status == ExitStatus::exited(0));
    CHECK(lines("overlap") == 0);
  }
  json report() const { return parse_json(read_file(dir_ / "report.json")); }
  const TempDir& dir() const { return dir_; }

 private:
  Words words(const Words& options) const {
    Words all = {"run", "--no-prefix", "--json", dir_ / "report.json", "--gang", "one"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "sh", "-c", kHold, "sh", dir_.path().string()});
    return cli(all);
  }

  TempDir dir_;
  Process process_;
};

/// The wardens of hosts that have ranks, and of those that have none.
struct Wardens {
  explicit Wardens(pid_t launcher) {
    for (const pid_t warden : wardens_of(launcher)) {
      const auto roles = find_roles(warden);
      const bool is_used = roles && !children_of(roles->keeper).empty();
      (is_used ? used : idle).push_back(warden);
    }
  }
  std::vector<pid_t> used = {};
  std::vector<pid_t> idle = {};
};

json former_life(const json& report, int rank) {
  for (const auto& life : report.at("former_lives")) {
    if (life.at("rank") == rank) return life;
  }
  return {};
}

}  // namespace

TEST_CASE(
    "cli: spec 18.1: with --gang one the ranks of a killed host move, and the others run on") {
  HoldingJob job({"--hosts", "3", "--use", "2", "-n", "4", "--restart", "on-failure:2"});
  for (int rank = 0; rank < 4; ++rank) REQUIRE(job.wait_for(rank, 0));
  const Wardens wardens(job.process().pid());
  REQUIRE(wardens.used.size() == 2);
  ::kill(wardens.used[0], SIGKILL);
  // Either two ranks have moved, or the other two.
  CHECK(wait_until([&] { return job.lines(" attempt 1 ") == 2; }, in_time));
  const int first = job.attempts(0, 1) == 1 ? 0 : 2;
  CHECK(job.attempts(first, 1) == 1);
  CHECK(job.attempts(first + 1, 1) == 1);
  // They are in the same place of the same world.
  const auto place = "node " + std::to_string(first / 2) + " local ";
  CHECK(job.lines(place + "0 of 4") == 2);
  CHECK(job.lines(place + "1 of 4") == 2);
  const auto moved = std::to_string(first) + "-" + std::to_string(first + 1);
  CHECK(job.says("; ranks " + moved + " move to a spare host\n"));
  CHECK(job.says("ranks " + moved + " are started on host "));
  job.check_end();
  CHECK(job.lines(" attempt ") == 6);
  CHECK_FALSE(has(job.process().err(), "attempt 2 of the job"));
  // The report says why they were started again.
  const auto report = job.report();
  CHECK(report.at("exit_code") == 0);
  CHECK(report.at("attempts").empty());
  CHECK(report.at("former_lives").size() == 2);
  const auto former = former_life(report, first);
  const std::string lost = former.at("host");
  CHECK(std::string(former.at("reason")).starts_with("host lost: " + lost));
  CHECK(report.at("ranks")[static_cast<std::size_t>(first)].at("restarts") == 1);
  CHECK(report.at("ranks")[static_cast<std::size_t>(first)].at("host") != lost);
  CHECK(report.at("ranks")[static_cast<std::size_t>(2 - first)].at("restarts") == 0);
}

TEST_CASE("cli: spec 18.1: a move from a standing host is told by why, ps and status") {
  std::array<StandingHost, 3> hosts;
  const auto list = hosts[0].address() + "," + hosts[1].address() + "," + hosts[2].address();
  const auto left = hosts[0].address() + "," + hosts[2].address();
  Words options = {"--hosts", list,        "--use",        "2",       "-n",   "4", "--name",
                   "work",    "--restart", "on-failure:1", "--grace", "200ms"};
  bool is_silent = false;
  SUBCASE("the host tells that its warden is dead, long before the lease is over") {}
  SUBCASE("nobody can tell: it is left when its lease is over") {
    is_silent = true;
    for (const auto* word : {"--set", "delivery.limit=1s", "--set", "lease=2s"})
      options.emplace_back(word);
  }
  HoldingJob job(options);
  for (int rank = 0; rank < 4; ++rank) REQUIRE(job.wait_for(rank, 0));
  const auto roles = hosts[1].roles();
  if (is_silent) {
    for (const pid_t role : {roles.agent, roles.broker, roles.keeper}) ::kill(role, SIGKILL);
  }
  ::kill(roles.warden, SIGKILL);
  for (const int rank : {2, 3}) REQUIRE(job.wait_for(rank, 1));
  CHECK(job.says("; ranks 2-3 move to a spare host"));
  CHECK(job.says("ranks 2-3 are started on host " + hosts[2].address() + " instead of " +
                 hosts[1].address()));
  const auto status = run_cli({"status", "work", "--hosts", left});
  INFO(status.out << status.err);
  CHECK(has(status.out, "Running  0-1\n"));
  CHECK(has(status.out, "Running  2-3           1\n"));
  const auto ps = run_cli({"ps", "--hosts", left, "--json"});
  INFO(ps.out << ps.err);
  CHECK(has(ps.out, hosts[2].address()));
  job.check_end();
  CHECK(job.lines(" attempt ") == 6);
  const auto why = run_cli({"why", "work:2", "--hosts", left});
  INFO(why.out << why.err);
  CHECK(has(why.out, "host " + hosts[1].address() + " is lost: "));
  // The next host removes what one leaves of which nobody lives.
  if (is_silent) StandingHost next;
}

TEST_CASE("cli: a run whose ranks cannot move ends with words, as a run without spares") {
  HoldingJob job({"--hosts", "3", "--use", "2", "-n", "2", "--restart", "on-failure:2"});
  for (int rank = 0; rank < 2; ++rank) REQUIRE(job.wait_for(rank, 0));
  const Wardens wardens(job.process().pid());
  REQUIRE(wardens.used.size() == 2);
  REQUIRE(wardens.idle.size() == 1);
  SUBCASE("no spare is left") {
    ::kill(wardens.idle[0], SIGKILL);
    ::kill(wardens.used[0], SIGKILL);
    const auto status = job.process().wait_exit(in_time);
    INFO(job.process().describe());
    // As for a job that starts again as a whole.
    CHECK(status == ExitStatus::exited(125));
    CHECK(has(job.process().err(), "; no spare host is left"));
    CHECK(has(job.process().err(), "too few hosts are left for another attempt: 1 of 3"));
    CHECK(job.lines(" attempt ") == 2);
  }
  SUBCASE("Ctrl-C comes while the spare is asked") {
    const auto spare = find_roles(wardens.idle[0]);
    REQUIRE(spare.has_value());
    ::kill(spare->agent, SIGSTOP);
    ::kill(wardens.used[0], SIGKILL);
    CHECK(job.says(" moves to a spare host\n"));
    job.process().send_signal(SIGINT);
    CHECK(job.process().wait_exit(in_time) == ExitStatus::exited(130));
    ::kill(spare->agent, SIGCONT);
    CHECK(job.lines(" attempt 1 ") == 0);
  }
}

TEST_CASE("cli: jobs whose ranks cannot join alone refuse to move single ranks") {
  const auto refused = [](const Words& options, const std::string& words) {
    Words all = {"run", "--hosts", "3", "--use", "2", "--restart", "on-failure", "--gang", "one"};
    all.insert(all.end(), options.begin(), options.end());
    const auto finished = run_cli(all);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(has(finished.err, words));
  };
  refused({"--torch", "--", "true"}, "--torch with --use and --restart needs --gang all");
  refused({"--mpi", "--", "true"}, "need --gang all");
}

TEST_CASE(
    "cli: hosts that are lost together, a spare among them, are replaced while there are spares") {
  HoldingJob job({"--hosts", "6", "--use", "2", "-n", "4", "--restart", "on-failure:1"});
  for (int rank = 0; rank < 4; ++rank) REQUIRE(job.wait_for(rank, 0));
  const auto kill_hosts = [&](std::size_t used, std::size_t idle) {
    const Wardens wardens(job.process().pid());
    std::vector<pid_t> victims(wardens.used.begin(),
                               wardens.used.begin() + static_cast<std::ptrdiff_t>(used));
    victims.insert(victims.end(), wardens.idle.begin(),
                   wardens.idle.begin() + static_cast<std::ptrdiff_t>(idle));
    for (const auto victim : victims) ::kill(victim, SIGKILL);
    // Two others have all ranks.
    const auto is_whole = [&] {
      const Wardens now(job.process().pid());
      const bool is_new = std::none_of(now.used.begin(), now.used.end(), [&](pid_t warden) {
        return std::find(victims.begin(), victims.end(), warden) != victims.end();
      });
      return is_new && now.used.size() == 2;
    };
    CHECK(wait_until([&] { return is_whole() || !job.process().is_running(); }, in_time));
    INFO(job.process().describe());
    REQUIRE(job.process().is_running());
  };
  kill_hosts(1, 1);
  kill_hosts(2, 0);
  // All ranks have begun for the last time when each of them has been started again.
  const bool have_all_begun = wait_until(
      [&] {
        return job.lines("rank 0 attempt ") >= 2 && job.lines("rank 1 attempt ") >= 2 &&
               job.lines("rank 2 attempt ") >= 2 && job.lines("rank 3 attempt ") >= 2;
      },
      in_time);
  INFO(job.process().describe());
  CHECK(have_all_begun);
  job.check_end();
  CHECK(job.report().at("attempts").empty());
}
