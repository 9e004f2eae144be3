// Several controllers of the same hosts, of which one acts (spec 18.3): the acting one is killed,
// frozen, cut off and ended; a subscriber counts what it hears, and the hosts what was ordered.
//   MESHBUS_TEST_PAIR_TIMES=500   the last test takes the acting one away so often
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "tests/integration/controller/paired.h"

namespace meshbus::test::paired {

/// Counts what a subscriber hears of ranks.
class Counter {
 public:
  explicit Counter(Paired& paired)
      : subscription_(must(Subscription::open(context_, paired.addresses(), {.deadline = in_time},
                                              [this](const SupervisionEvent& event) {
                                                const std::lock_guard lock(mutex_);
                                                note(event);
                                              }))) {}

  /// Ends that were heard of incarnations of ranks.
  std::size_t ends() const {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }
  /// "restarting" of such a rank and number of restarts before.
  std::size_t restarts() const {
    const std::lock_guard lock(mutex_);
    return restarting_;
  }
  std::string wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }
  std::size_t moves() const {
    const std::lock_guard lock(mutex_);
    return moves_;
  }

 private:
  void note(const SupervisionEvent& event) {
    if (event.kind == Kind::controller_back) ++moves_;
    if (event.kind == Kind::restarting) ++restarting_;
    if (event.kind != Kind::rank) return;
    const auto& rank = *event.rank;
    const auto words = "rank " + std::to_string(rank.rank) + ", attempt " +
                       std::to_string(rank.restarts) + ": " + event.describe() + "\n";
    const std::pair attempt(rank.rank, rank.restarts);
    if (rank.is_terminal() && !ends_.insert(attempt).second) wrong_ += "told twice: " + words;
    if (rank.state == ProcState::ready && !readies_.insert(attempt).second)
      wrong_ += "told twice: " + words;
    // The one before has ended, and that was told.
    if (rank.restarts > 0 && readies_.contains({rank.rank, 0}) &&
        !ends_.contains({rank.rank, rank.restarts - 1}))
      wrong_ += "the end before was not told: " + words;
  }

  mutable std::mutex mutex_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> ends_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> readies_;
  std::size_t restarting_ = 0;
  std::size_t moves_ = 0;
  std::string wrong_;
  Context context_ = must(Context::create());
  Subscription subscription_;
};

TEST_CASE(
    "pair: of two controllers one acts; when it is killed the other one has its meshes, restarts "
    "their ranks, and the subscriber hears each end once") {
  Paired paired(3);
  const auto first = paired.actor();
  const auto term = paired.term_of(first);
  CHECK(paired.part_of(1 - first).empty());
  paired.spawn({"-n", "3", "--restart", "on-failure:10"});
  Counter counter(paired);
  REQUIRE(paired.are_up(0));
  paired.kill_rank(0);
  REQUIRE(paired.are_up(1));

  const auto began = std::chrono::steady_clock::now();
  paired.controller(first).send_signal(SIGKILL);
  paired.controller(first).wait_exit(in_time);
  // Nobody restarts it until the other one acts.
  paired.kill_rank(1);
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.term_of(1 - first) > term);
  const auto took = std::chrono::steady_clock::now() - began;
  REQUIRE(paired.are_up(2));
  // A term of 1 s, looks and rounds; the lease of the mesh is 30 s.
  CHECK(took < 15s);
  MESSAGE("taken over after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
                              << " ms");
  paired.kill_rank(2);
  REQUIRE(paired.are_up(3));
  CHECK(wait_until([&] { return counter.ends() == 3 && counter.restarts() == 3; }, in_time));
  CHECK(counter.wrong() == "");

  const auto list = run_cli({"controller", "list", "--hosts", paired.joined()});
  CHECK(has(list.out, "; acts (pair site, term "));
  CHECK(has(list.out, "answers for 1"));
  // The one that comes again stands by.
  paired.start(first);
  CHECK(wait_until(
      [&] {
        return has(run_cli({"controller", "list", "--hosts", paired.joined()}).out,
                   "; stands by (pair site), ");
      },
      in_time));
  CHECK(paired.part_of(1 - first) == "acts");
}

TEST_CASE(
    "pair: a controller that is frozen until another one acts does nothing when it wakes, and says "
    "so") {
  Paired paired(3);
  const auto first = paired.actor();
  const auto term = paired.term_of(first);
  paired.spawn({"-n", "2", "--restart", "on-failure:10"});
  Counter counter(paired);
  REQUIRE(paired.are_up(0));
  paired.controller(first).send_signal(SIGSTOP);
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.term_of(1 - first) > term);
  paired.kill_rank(0);
  REQUIRE(paired.are_up(1));
  paired.kill_rank(1);
  paired.controller(first).send_signal(SIGCONT);
  CHECK(wait_until([&] { return paired.part_of(first) == "stands_by"; }, in_time));
  INFO(paired.controller(first).err());
  CHECK(has(paired.controller(first).err(), "it stands by from now on (pair site): term "));
  REQUIRE(paired.are_up(2));
  CHECK(wait_until([&] { return counter.ends() == 2 && counter.restarts() == 2; }, in_time));
  CHECK(counter.wrong() == "");
  CHECK(paired.acting() == 1);
}

TEST_CASE(
    "pair: ended in order, the acting one leaves its meshes to the one that stands by; the last "
    "one stops them") {
  Paired paired(2);
  const auto first = paired.actor();
  paired.spawn({"-n", "2", "--restart", "on-failure:10"});
  REQUIRE(paired.are_up(0));
  // It has heard that there is another one.
  REQUIRE(wait_until(
      [&] {
        return has(run_cli({"controller", "list", "--hosts", paired.joined()}).out, "stands by");
      },
      in_time));
  paired.controller(first).send_signal(SIGTERM);
  CHECK(paired.controller(first).wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.are_up(0));
  paired.kill_rank(0);
  CHECK(paired.are_up(1));
  paired.controller(1 - first).send_signal(SIGTERM);
  CHECK(paired.controller(1 - first).wait_exit(in_time) == ExitStatus::exited(0));
  for (const auto& rank : paired.ranks()) CHECK(rank.at("status") != "ready");
}

TEST_CASE("pair: a controller that stands by refuses what the acting one does, and names it") {
  Paired paired(2);
  const auto first = paired.actor();
  std::string home;
  REQUIRE(wait_until(
      [&] {
        const auto list =
            parse_json(run_cli({"controller", "list", "--json", "--hosts", paired.joined()}).out);
        for (const auto& one : list) {
          if (!one.at("acts").get<bool>()) home = one.at("controller").get<std::string>();
        }
        return !home.empty();
      },
      in_time));
  CHECK(wait_until([&] { return has(paired.health_of(first), "ok: acts, in term "); }, in_time));
  CHECK(wait_until(
      [&] {
        const auto text = paired.health_of(1 - first);
        return has(text, "ok: stands by; ") && has(text, ",controller acts");
      },
      in_time));
  const auto spawned = run_cli(
      {"spawn", "none", "--hosts", paired.joined(), "--controller", home, "--", "sleep", "100"});
  CHECK(spawned.status == ExitStatus::exited(1));
  CHECK(has(spawned.err, "stands by (pair site); "));
  CHECK(has(spawned.err, ",controller acts"));

  // The hosts have written down which of them acts.
  const auto audit = run_cli({"audit", "--hosts", paired.joined(), "--verb", "take over"});
  INFO(audit.out, audit.err);
  CHECK(has(audit.out, "term " + std::to_string(paired.term_of(first)) + " of pair site"));
  CHECK(paired.part_of(first) == "acts");
}

TEST_CASE("pair: the acting one whose own host is lost goes on through another one") {
  Paired paired(3, "9s");
  const auto first = paired.actor();
  paired.spawn({"-n", "3", "--restart", "on-failure:10"});
  REQUIRE(paired.are_up(0));
  const auto home = paired.home_of(first);
  const auto rank = (home + 1) % 3;
  const auto pid = paired.ranks().at(rank).at("pid").get<pid_t>();
  REQUIRE(::kill(paired.host(home).roles().warden, SIGKILL) == 0);
  REQUIRE(::kill(pid, SIGKILL) == 0);
  const auto& other = paired.host(rank).address();
  CHECK(wait_until(
      [&] {
        const auto list = parse_json(run_cli({"ps", "--all", "--json", "--hosts", other}).out);
        for (const auto& one : list.at("meshes").at(0).at("ranks")) {
          if (one.at("rank") == rank) return one.at("status") == "ready" && one.at("restarts") == 1;
        }
        return false;
      },
      in_time));
  CHECK(paired.part_of(first) == "acts");
  CHECK(paired.part_of(1 - first).empty());
}

TEST_CASE(
    "pair: a host is lost together with the controller that acts: the other one has the mesh, "
    "renews its leases and restarts its ranks elsewhere") {
  Paired paired(3, "1s", "5s");
  const auto first = paired.actor();
  const auto term = paired.term_of(first);
  paired.spawn({"-n", "3", "--restart", "on-failure:1000"});
  REQUIRE(paired.are_up(0));
  const auto home = paired.home_of(first);
  paired.controller(first).send_signal(SIGKILL);
  REQUIRE(::kill(paired.host(home).roles().warden, SIGKILL) == 0);
  const auto lost = std::chrono::steady_clock::now();
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.term_of(1 - first) > term);
  const auto there = (home + 1) % 3;
  // Twice as long as the lease, in which it would have been stopped.
  while (std::chrono::steady_clock::now() - lost < 10s) REQUIRE(paired.restarts_on(there));
  CHECK(paired.rank_on((home + 2) % 3, (home + 2) % 3).at("status") == "ready");
  CHECK(paired.rank_on((home + 2) % 3, (home + 2) % 3).at("restarts") == 0);
  const auto left = paired.host(there).address() + "," + paired.host((home + 2) % 3).address();
  CHECK(has(run_cli({"controller", "list", "--hosts", left}).out, "answers for 1"));
}

TEST_CASE(
    "pair: a controller that is started after a host was lost has its mesh, and restarts the ranks "
    "on the others") {
  Paired paired(3);
  const auto first = paired.actor();
  const auto term = paired.term_of(first);
  // The other one hears of the mesh from those hosts alone that are left.
  paired.controller(1 - first).send_signal(SIGKILL);
  paired.controller(1 - first).wait_exit(in_time);
  paired.spawn({"-n", "3", "--restart", "on-failure:1000"});
  REQUIRE(paired.are_up(0));
  paired.controller(first).send_signal(SIGKILL);
  REQUIRE(::kill(paired.host(0).roles().warden, SIGKILL) == 0);
  paired.controller(first).wait_exit(in_time);
  paired.start(1 - first);
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.term_of(1 - first) > term);
  REQUIRE(paired.restarts_on(1));
  REQUIRE(paired.restarts_on(2));
  REQUIRE(paired.restarts_on(1));
}

TEST_CASE(
    "pair: a host that is cut off together with the controller that acts is claimed when it is "
    "back, and each of its ranks has one owner all the time") {
  Paired paired(3);
  const auto first = paired.actor();
  const auto term = paired.term_of(first);
  paired.spawn({"-n", "3", "--restart", "on-failure:1000"});
  Counter counter(paired);
  REQUIRE(paired.are_up(0));
  const auto home = paired.home_of(first);
  const auto there = (home + 1) % 3;
  std::optional<FrozenHost> frozen(paired.host(home).roles());
  paired.controller(first).send_signal(SIGSTOP);
  CHECK(paired.actor(first) == 1 - first);
  CHECK(paired.term_of(1 - first) > term);
  REQUIRE(paired.restarts_on(there));
  const auto& at = paired.host(paired.home_of(1 - first)).address();
  CHECK(wait_until(
      [&] {
        const Words show = {"controller", "show", "--hosts", at};
        return has(run_cli(show).out, "3 of 3 live (1 on hosts that do not answer), 0 failed");
      },
      in_time));
  frozen.reset();
  paired.controller(first).send_signal(SIGCONT);
  CHECK(wait_until([&] { return paired.part_of(first) == "stands_by"; }, in_time));
  REQUIRE(paired.restarts_on(home));
  CHECK(paired.part_of(1 - first) == "acts");
  CHECK(paired.term_of(first) == term);
  CHECK(wait_until([&] { return counter.ends() == 2 && counter.restarts() == 2; }, in_time));
  CHECK(counter.wrong() == "");
  // The host that was cut off has heard of both.
  const auto audit =
      run_cli({"audit", "--hosts", paired.host(home).address(), "--verb", "take over"});
  INFO(audit.out, audit.err);
  const auto one = audit.out.find(" of pair site");
  REQUIRE(one != std::string::npos);
  CHECK(audit.out.find(" of pair site", one + 1) != std::string::npos);
}

TEST_CASE("pair: what cannot be is refused at the start") {
  const auto start = [](const Words& more) {
    Words words{bin("meshbus-controller"), "--hosts", "unix:/nowhere"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, in_time);
  };
  const auto name = start({"--pair", "a/b"});
  CHECK(name.status == ExitStatus::exited(2));
  CHECK(has(name.err, "--pair"));
  const auto term = start({"--pair", "site", "--set", "lease=20s"});
  CHECK(term.status == ExitStatus::exited(2));
  CHECK(has(term.err, "has to fit three times into lease"));
}

TEST_CASE(
    "pair: whatever befalls the acting one, again and again, its ranks are restarted once each, "
    "and the subscriber misses nothing") {
  const char* const wanted = std::getenv("MESHBUS_TEST_PAIR_TIMES");
  const int times = wanted == nullptr ? 4 : std::atoi(wanted);
  Paired paired(3);
  paired.actor();
  paired.spawn({"-n", "3", "--restart", "on-failure:1000000"});
  Counter counter(paired);
  REQUIRE(paired.are_up(0));
  std::mt19937_64 random(static_cast<std::uint64_t>(times));
  std::uint64_t restarts = 0;
  std::map<std::string, int> done;
  for (int i = 0; i < times; ++i) {
    const auto first = paired.actor();
    const auto term = paired.term_of(first);
    // The other one acts, in a term that is later.
    const auto is_taken_over = [&] {
      return paired.actor(first) == 1 - first && paired.term_of(1 - first) > term;
    };
    auto& process = paired.controller(first);
    const auto what = i % 4;
    CAPTURE(i);
    CAPTURE(what);
    // Before, while and after nobody acts.
    const auto victim = random() % 3;
    if (random() % 2 == 0) {
      paired.kill_rank(victim);
      ++restarts;
      if (random() % 2 == 0) REQUIRE(paired.are_up(restarts));
    }
    if (what == 0) {
      process.send_signal(SIGKILL);
      process.wait_exit(in_time);
      paired.kill_rank((victim + 1) % 3);
      ++restarts;
      REQUIRE(is_taken_over());
      paired.start(first);
      ++done["kills"];
    } else if (what == 1) {
      process.send_signal(SIGSTOP);
      paired.kill_rank((victim + 1) % 3);
      ++restarts;
      REQUIRE(is_taken_over());
      process.send_signal(SIGCONT);
      ++done["freezes"];
    } else if (what == 2) {
      // Its way to everything is the broker of its host.
      const auto roles = paired.host(paired.home_of(first)).roles();
      ::kill(roles.broker, SIGSTOP);
      const bool is_done = is_taken_over();
      ::kill(roles.broker, SIGCONT);
      REQUIRE(is_done);
      CHECK(wait_until([&] { return paired.part_of(first) == "stands_by"; }, in_time));
      paired.kill_rank((victim + 1) % 3);
      ++restarts;
      ++done["cuts"];
    } else {
      process.send_signal(SIGSTOP);
      paired.kill_rank((victim + 1) % 3);
      ++restarts;
      process.send_signal(SIGCONT);
      ++done["short freezes"];
    }
    REQUIRE(paired.are_up(restarts));
    INFO(counter.wrong());
    const bool are_told = wait_until(
        [&] { return counter.ends() == restarts && counter.restarts() == restarts; }, in_time);
    REQUIRE_MESSAGE(are_told, restarts << " ranks were killed; told: " << counter.ends()
                                       << " ends and " << counter.restarts() << " restarts");
    REQUIRE(counter.wrong() == "");
    // One that wakes has to find out first.
    REQUIRE(wait_until([&] { return paired.acting() == 1; }, in_time));
  }
  CHECK(counter.ends() == restarts);
  CHECK(counter.restarts() == restarts);
  std::string text;
  for (const auto& [what, count] : done) text += std::to_string(count) + " " + what + ", ";
  MESSAGE(text << restarts << " ends of ranks: each was told once; " << counter.restarts()
               << " restarts were told");
}

}  // namespace meshbus::test::paired
