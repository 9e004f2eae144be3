// Random kills from a printed seed, over hosts with the wildest procs (tests/programs/zoo.cpp,
// --wild). Whichever process dies, and when, nothing is left, and the end of each rank is reported
// once and with its cause: to its launcher, and in the event log of its host, which outlives the
// host. Should all else fail, each process ends on its own before long, and their number is
// limited. MESHBUS_TEST_CHAOS_SEED repeats a run, MESHBUS_TEST_CHAOS_KILLS says how many kills each
// containment gets.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "tests/integration/needs.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

// Read before main(), which removes all our variables from the environment.
const std::uint64_t all_kills = number_from_environment("MESHBUS_TEST_CHAOS_KILLS", 20);
const std::uint64_t chosen_seed =
    number_from_environment("MESHBUS_TEST_CHAOS_SEED", std::random_device{}());

constexpr std::size_t kHosts = 2;
constexpr std::size_t wild_per_host = 6;
constexpr std::size_t mesh_per_host = 2;

using Random = std::mt19937_64;

std::size_t pick(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

void pause_for(Random& random, int most_ms) {
  const std::chrono::milliseconds time(pick(random, static_cast<std::size_t>(most_ms)));
  std::this_thread::sleep_for(time);  // sleep-ok: a random moment
}

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Two hosts with a mesh of wild plain procs and one of mesh procs.
class World {
 public:
  World(const std::string& containment, const Settings& settings)
      : context_(must(Context::create())),
        hosts_(must(HostMesh::process(context_, extent("host=2"),
                                      {.program = bin("meshbus"),
                                       .containment = containment,
                                       .settings = with_logs(settings, logs_.path().string()),
                                       .ready_limit = in_time}))) {
    const std::string sleep = own_sleep();
    sleeps_ = sleep;
    // A folder for each host: in pid namespaces they have the same pids.
    for (std::size_t host = 0; host < kHosts; ++host)
      std::filesystem::create_directory(dir_ / std::to_string(host));
    const std::string wild =
        "exec " + bin("test_zoo") + " --wild " + dir_.path().string() + "/$NODE_RANK";
    wild_.emplace(start("wild", wild_per_host,
                        {.command = {"sh", "-c", wild}, .output = OutputMode::stream}));
    const std::string script = "setsid " + sleep + " & (setsid " + sleep + " &) ; exec " +
                               bin("meshbus_test_proc") + " serve " + dir_.path().string();
    mesh_.emplace(
        start("mesh", mesh_per_host, {.kind = ProcKind::mesh, .command = {"sh", "-c", script}}));
    for (const pid_t warden : wardens_of(::getpid())) wardens_.push_back(warden);
    // Wild ranks: the rank, a session and a bare one each, and the runners'. The mesh's: the proc
    // itself and two sleeps each.
    const bool are_up = wait_until(
        [&] {
          return animals() >= kHosts * (3 * wild_per_host + 1) &&
                 sleepers(sleep).size() == 2 * mesh_per_host * kHosts;
        },
        in_time);
    INFO(to_string(relatives()));
    REQUIRE(are_up);
  }

  /// Everything that descends from the ranks, and they themselves.
  std::vector<ProcessInfo> relatives() const {
    auto found = processes_with(dir_.path().string());
    for (auto& one : sleepers(sleeps_)) found.push_back(std::move(one));
    return found;
  }
  std::vector<RankReport> ranks() const {
    auto all = wild_->known().ranks;
    for (auto& rank : mesh_->known().ranks) all.push_back(std::move(rank));
    return all;
  }
  /// How often the failure of a rank was told; numbered as in ranks().
  std::size_t times_told(std::size_t index) const {
    const bool is_wild = index < wild_->size();
    const auto failures = (is_wild ? wild_heard_ : mesh_heard_).failures();
    const std::uint64_t rank = is_wild ? index : index - wild_->size();
    return static_cast<std::size_t>(std::count_if(
        failures.begin(), failures.end(), [&](const RankReport& one) { return one.rank == rank; }));
  }
  /// What the event logs of the hosts have about the end of each rank, numbered as in ranks().
  std::map<std::size_t, std::vector<json>> logged_ends() const {
    std::map<std::size_t, std::vector<json>> found;
    for (const auto& entry : std::filesystem::directory_iterator(logs_.path())) {
      if (!entry.path().filename().string().starts_with("events-")) continue;
      for (const auto& line : lines_of(read_file(entry.path()))) {
        auto event = parse_json(line);
        if (event.at("kind") != "proc_ended") continue;
        const bool is_wild = event.at("mesh") == wild_->ref().mesh().to_string();
        REQUIRE((is_wild || event.at("mesh") == mesh_->ref().mesh().to_string()));
        found[event.at("rank").get<std::size_t>() + (is_wild ? 0 : wild_->size())].push_back(
            std::move(event));
      }
    }
    return found;
  }
  /// The present roles of the host with that index.
  std::optional<Roles> roles(std::size_t host) const {
    const auto states = hosts_.states(5s);
    if (!states) return std::nullopt;
    for (const pid_t warden : wardens_) {
      const auto found = find_roles(warden);
      if (found && found->agent == (*states)[host].pid) return found;
    }
    return std::nullopt;
  }
  void stop() {
    (void)wild_->stop({.reason = "the end",
                       .grace = 100ms});  // cannot succeed when a host is gone: the reports say it
    (void)mesh_->stop({.reason = "the end", .grace = 100ms});
    (void)hosts_.shutdown(in_time);
  }

 private:
  ProcMesh start(const std::string& name, std::uint64_t count, ProcSpec spec) {
    spec.settings.limits = {{RLIMIT_CORE, 0, 0}};
    Handlers handlers = (name == "wild" ? wild_heard_ : mesh_heard_).handlers();
    handlers.on_output = [](std::uint64_t, Stream, std::string_view) {};
    return must(hosts_.spawn(name, extent("proc=" + std::to_string(count)), std::move(spec),
                             std::move(handlers)));
  }
  std::size_t animals() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path()))
      count += entry.is_regular_file() && !entry.path().filename().string().starts_with('.');
    return count;
  }

  static Settings with_logs(Settings settings, const std::string& directory) {
    // Little output is kept, because some procs write without end.
    settings.insert(settings.end(),
                    {{"logs.directory", directory}, {"logs.size", "64KiB"}, {"logs.files", "1"}});
    return settings;
  }

  TempDir dir_;
  TempDir logs_;
  std::string sleeps_;
  Heard wild_heard_;
  Heard mesh_heard_;
  Context context_;
  HostMesh hosts_;
  std::optional<ProcMesh> wild_;
  std::optional<ProcMesh> mesh_;
  std::vector<pid_t> wardens_;
};

/// What the test did, and so what must be told.
struct Deeds {
  std::map<std::size_t, int> signals;     // to ranks, numbered as in World::ranks()
  std::set<std::size_t> lost_hosts;       // whose warden or keeper was killed
  std::set<std::size_t> agents, brokers;  // that were killed once
  std::string log;
};

/// A signal that ends that rank, whatever it does against it.
int pick_signal(Random& random, std::size_t index) {
  const bool is_wild = index < kHosts * wild_per_host;
  if (is_wild && index % 6 == 2) return SIGKILL;  // stopped: all others wait
  // Mesh procs may have a sanitizer that makes an exit of the others.
  const std::vector<int> signals = is_wild ? std::vector{SIGKILL, SIGABRT, SIGUSR1, SIGSEGV, SIGBUS}
                                           : std::vector{SIGKILL, SIGABRT, SIGUSR1};
  return signals[pick(random, signals.size())];
}

void kill_something(Random& random, World& world, Deeds& deeds) {
  const auto note = [&](const std::string& what) { deeds.log += what + "\n"; };
  const auto ranks = world.ranks();
  const std::size_t host = pick(random, kHosts);
  switch (const auto dice = pick(random, 20); dice) {
    case 0:
    case 1:
    case 2: {  // a role
      const auto roles = world.roles(host);
      if (!roles || deeds.lost_hosts.contains(host)) break;
      // Two hosts may not both be lost: nothing would be left to look at.
      if (dice == 0 && deeds.lost_hosts.empty()) {
        const bool is_warden = pick(random, 2) == 0;
        note("host " + std::to_string(host) + (is_warden ? ": warden" : ": keeper"));
        deeds.lost_hosts.insert(host);
        ::kill(is_warden ? roles->warden : roles->keeper, SIGKILL);
      } else if (dice == 1 && deeds.agents.insert(host).second) {
        note("host " + std::to_string(host) + ": agent");
        ::kill(roles->agent, SIGKILL);
      } else if (dice == 2 && deeds.brokers.insert(host).second) {
        note("host " + std::to_string(host) + ": broker");
        ::kill(roles->broker, SIGKILL);
      }
      return;
    }
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
    case 8: {  // a descendant: nobody's end but its own
      auto others = world.relatives();
      std::erase_if(others, [&](const ProcessInfo& one) {
        return std::any_of(ranks.begin(), ranks.end(),
                           [&](const RankReport& rank) { return rank.pid == one.pid; });
      });
      if (others.empty()) break;
      const auto& victim = others[pick(random, others.size())];
      note("descendant " + victim.to_string());
      ::kill(victim.pid, SIGKILL);
      return;
    }
    default: break;
  }
  for (int tries = 0; tries < 20; ++tries) {
    const std::size_t index = pick(random, ranks.size());
    if (deeds.signals.contains(index) || deeds.lost_hosts.contains(ranks[index].host_index) ||
        ranks[index].is_terminal())
      continue;
    const int signal = pick_signal(random, index);
    note(ranks[index].describe() + ", pid " + std::to_string(ranks[index].pid) + ": " +
         signal_name(signal));
    deeds.signals[index] = signal;
    ::kill(static_cast<pid_t>(ranks[index].pid), signal);
    return;
  }
}

std::optional<int> find_signal(const Deeds& deeds, std::size_t index) {
  const auto given = deeds.signals.find(index);
  return given == deeds.signals.end() ? std::nullopt : std::optional(given->second);
}

/// Checks that launcher and event log report the end of a rank as it was.
void check_end(const RankReport& rank, const std::vector<json>& logged, std::optional<int> signal,
               const Deeds& deeds) {
  const bool is_lost_host = deeds.lost_hosts.contains(rank.host_index);
  // The report of a rank that was killed just before its host was lost may be lost, too.
  const bool is_lost =
      is_lost_host && rank.state == ProcState::failed &&
      (rank.words().starts_with("host lost") || rank.words().starts_with("keeper lost"));
  if (is_lost) {
    CHECK((rank.cause == Cause::host_lost || rank.cause == Cause::keeper_lost));
  } else if (signal) {
    CHECK(rank.state == ProcState::killed);
    CHECK(rank.signal == *signal);
    CHECK(rank.cause == (*signal == SIGKILL ? Cause::killed_from_outside : Cause::signaled));
  } else {
    CHECK_FALSE(is_lost_host);
    CHECK(rank.state == ProcState::stopped);
    CHECK(rank.stop_reason == "the end");
    CHECK((rank.cause == Cause::stopped || rank.cause == Cause::killed_after_grace));
  }
  CHECK(logged.size() >= (is_lost_host ? 0 : 1));
  // An agent that is killed when it has just written may leave it to the next one to write the same
  // again.
  CHECK(logged.size() <= (deeds.agents.contains(rank.host_index) ? 2 : 1));
  for (const json& one : logged) {
    CAPTURE(one.dump());
    CHECK(one.at("incarnation") == logged.front().at("incarnation"));
    CHECK(one.at("cause") == logged.front().at("cause"));
    if (!is_lost) CHECK(one.at("cause") == to_string(rank.cause));
    if (!is_lost) CHECK(one.at("incarnation") == rank.incarnation);
  }
}

/// Kills something `kills` times; then everything is told as it was, and nothing is left.
void run_round(const std::string& containment, const Settings& settings, std::uint64_t seed,
               std::size_t kills) {
  Random random(seed);
  World world(containment, settings);
  Deeds deeds;
  for (std::size_t i = 0; i < kills; ++i) {
    pause_for(random, 40);
    kill_something(random, world, deeds);
  }
  INFO("MESHBUS_TEST_CHAOS_SEED of this round: " << seed << ", " << containment << "\n"
                                                 << deeds.log);
  const auto is_doomed = [&](std::size_t index, const RankReport& rank) {
    return deeds.signals.contains(index) || deeds.lost_hosts.contains(rank.host_index);
  };
  // What died of itself is told before anybody is stopped.
  const bool is_told = wait_until(
      [&] {
        const auto ranks = world.ranks();
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          if (is_doomed(i, ranks[i]) && world.times_told(i) == 0) return false;
        }
        return true;
      },
      in_time);
  {
    std::string state;
    for (const auto& rank : world.ranks()) state += rank.describe() + "\n";
    INFO(state);
    REQUIRE(is_told);
  }
  world.stop();
  const auto took = time_until(
      [&] { return world.relatives().empty() && world.relatives().empty(); }, cleaned_up);
  INFO("survivors:\n" << to_string(world.relatives()));
  CHECK(took.has_value());
  const auto ranks = world.ranks();
  auto logged = world.logged_ends();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto& rank = ranks[i];
    INFO(rank.describe());
    CHECK(rank.is_terminal());
    CHECK(world.times_told(i) == (is_doomed(i, rank) ? 1 : 0));
    check_end(rank, logged[i], find_signal(deeds, i), deeds);
  }
}

/// A limit of processes, where there can be one; with it a host does not start where there can be
/// none.
Settings limit_of_processes(const std::string& containment) {
  const StandingHost probe({"--containment", containment});
  if (probe.ready().at("pids_limit") == 0) return {};
  return {{"pids.limit", "1000"}};
}

void run_chaos(const std::string& containment) {
  MESSAGE("MESHBUS_TEST_CHAOS_SEED=" << chosen_seed);
  const auto settings = limit_of_processes(containment);
  std::uint64_t seed = chosen_seed;
  for (std::uint64_t left = all_kills; left > 0; ++seed) {
    const auto kills = std::min<std::uint64_t>(left, 10);
    run_round(containment, settings, seed, kills);
    // In a pid namespace a warden that is killed takes its keeper along: what they would have
    // removed is the next host's of this user.
    if (containment == "pidns") StandingHost next;
    CHECK(host_directories().empty());
    left -= kills;
  }
}

/// Launchers that are killed at any moment, also while they start.
void kill_launchers(const std::string& containment) {
  Random random(chosen_seed);
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, all_kills / 10); ++i) {
    const TempDir dir;
    Process launcher(cli({"run", "--hosts", "2", "-n", "6", "--containment", containment, "--",
                          bin("test_zoo"), "--wild", dir.path().string()}));
    pause_for(random, 400);
    launcher.send_signal(SIGKILL);
    const auto took = time_until(
        [&] {
          return processes_with(dir.path().string()).empty() &&
                 processes_with(dir.path().string()).empty() && host_directories().empty();
        },
        cleaned_up);
    INFO("MESHBUS_TEST_CHAOS_SEED=" << chosen_seed << ", launcher " << i << ", " << containment
                                    << "\n"
                                    << to_string(processes_with(dir.path().string())));
    CHECK(took.has_value());
  }
}

}  // namespace

TEST_CASE("chaos: random kills, cgroup v2 where it can be had") {
  run_chaos("auto");
  kill_launchers("auto");
}

TEST_CASE("chaos: random kills, sweep") {
  run_chaos("sweep");
  kill_launchers("sweep");
}

TEST_CASE("chaos: random kills, pid namespace" * doctest::test_suite(need::pid_namespace)) {
  run_chaos("pidns");
  kill_launchers("pidns");
}
