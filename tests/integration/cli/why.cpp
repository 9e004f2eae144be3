// `meshbus why` and the event log of a host (spec 4.9): what ended, and why, for any asker and
// however late.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <set>

#include "agent/os/cgroup.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

json why(const std::string& hosts, const Words& more = {}) {
  Words words = {"why", "--json", "--hosts", hosts};
  words.insert(words.end(), more.begin(), more.end());
  const auto finished = run_cli(words);
  INFO(finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  return parse_json(finished.out);
}

/// The ends of ranks in a story, by rank; each once.
std::map<int, json> ends_of(const std::string& hosts, const std::string& mesh) {
  std::map<int, json> ends;
  const auto story = why(hosts, {mesh});
  for (const auto& event : story.at("events")) {
    if (event.at("end").is_null()) continue;
    // Ranks with the same end are told as one.
    const auto text = event.at("ranks").get<std::string>();
    for (int rank = 0; rank < 64; ++rank) {
      Words parts;
      for (std::size_t begin = 0; begin <= text.size();) {
        const auto comma = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, comma - begin));
        begin = comma + 1;
      }
      for (const auto& part : parts) {
        const auto dash = part.find('-');
        const int first = std::stoi(part);
        const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
        if (rank < first || rank > last) continue;
        CHECK_FALSE(ends.contains(rank));
        ends[rank] = event.at("end");
      }
    }
  }
  return ends;
}

/// A run on standing hosts that is waited for.
Finished run_on(const std::string& hosts, const Words& options, const std::string& script) {
  Words words = {"run", "--hosts", hosts, "--stdin", "none"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return run_cli(words);
}

std::filesystem::path log_of(const StandingHost& host) {
  return std::filesystem::path(host.ready().at("run_dir").get<std::string>()) / "events.jsonl";
}

/// A run whose ranks sleep, all of them up.
struct SleepingRanks {
  std::string sleep = own_sleep();
  Process process;
  SleepingRanks(const std::string& hosts, const Words& options, int ranks,
                const std::string& before = "")
      : process(words(hosts, options, ranks, before)) {
    wait_until(
        [&] {
          return sleepers(sleep).size() == static_cast<std::size_t>(ranks) || !process.is_running();
        },
        in_time);
    INFO(process.describe());
    REQUIRE(sleepers(sleep).size() == static_cast<std::size_t>(ranks));
  }
  Words words(const std::string& hosts, const Words& options, int ranks,
              const std::string& before) const {
    Words all = {"run", "--hosts", hosts, "--stdin", "none", "-n", std::to_string(ranks)};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "sh", "-c", before + "exec " + sleep});
    return cli(all);
  }
};

}  // namespace

TEST_CASE("why: the rank that failed first is told first, then what was stopped because of it") {
  StandingHost one;
  StandingHost other;
  const auto hosts = one.address() + "," + other.address();
  const auto script =
      "if [ $RANK = 2 ]; then echo oh no >&2; sleep 0.2; exit 3; fi; exec " + own_sleep();
  CHECK(run_on(hosts, {"-n", "4", "--name", "train"}, script).status == ExitStatus::exited(3));

  const auto story = why(hosts, {"train"});
  INFO(story.dump(2));
  CHECK(story.at("mesh").get<std::string>().starts_with("train-"));
  const auto& first = story.at("first");
  CHECK(first.at("role") == "first");
  CHECK(first.at("host") == other.address());
  CHECK(first.at("end").at("rank") == 2);
  CHECK(first.at("end").at("cause") == "exited");
  CHECK(first.at("end").at("exit_code") == 3);
  CHECK(first.at("end").at("stderr_tail") == json({"oh no"}));
  CHECK(first.at("end").at("consequence") == false);
  CHECK(story.at("events").front() == first);
  auto ends = ends_of(hosts, "train");
  REQUIRE(ends.size() == 4);
  for (const int rank : {0, 1, 3}) {
    CHECK(ends[rank].at("cause") == "stopped");
    CHECK(ends[rank].at("consequence") == true);
    CHECK(ends[rank].at("because") == 2);
    CHECK(ends[rank].at("stop").at("step") == "term");
    CHECK(ends[rank].at("stop").at("reason") == "rank 2 failed: exit 3");
  }
  // For people: the cause in front, with its last words.
  const auto text = run_cli({"why", "--hosts", hosts}).out;
  INFO(text);
  const auto lines = lines_of(text);
  REQUIRE(lines.size() > 4);
  CHECK(lines[0] == "mesh " + story.at("mesh").get<std::string>());
  CHECK(lines[1] == "first:");
  CHECK(lines[2].find("rank 2 (host=1/2,proc=0/2) on " + other.address() + ": exit 3") !=
        std::string::npos);
  CHECK(text.find("      | oh no\n") != std::string::npos);
  CHECK(text.find("because of it:\n") != std::string::npos);
  // One rank, by number, and by the name of its proc.
  const auto mesh = story.at("mesh").get<std::string>();
  for (const auto& target : {Words{"3"}, Words{"train", "--rank", "3"},
                             Words{"train_3" + mesh.substr(mesh.rfind('-'))}}) {
    INFO(target.front());
    const auto part = why(hosts, target);
    CHECK(part.at("first").at("end").at("rank") == 2);
    REQUIRE(part.at("events").size() == 2);
    CHECK(part.at("events").at(1).at("end").at("rank") == 3);
  }
}

TEST_CASE("why: every way to end a rank has its own cause") {
  StandingHost host;
  const auto& at = host.address();
  const TempDir dir;
  const auto deaf = "trap '' TERM; while :; do sleep 0.05; done";
  run_on(at, {"--name", "good"}, "exit 0");
  run_on(at, {"--name", "code"}, "exit 7");
  run_on(at, {"--name", "segv"}, "ulimit -c 0; kill -SEGV $$");
  run_on(at, {"--name", "soft", "--rlimit", "cpu=1:5"}, "while :; do :; done");
  run_on(at, {"--name", "hard", "--rlimit", "cpu=1:2"}, "trap '' XCPU; while :; do :; done");
  run_on(at, {"--name", "deaf", "--timeout", "1s", "--grace", "300ms"}, deaf);
  run_on(at, {"--name", "timeout", "--timeout", "1s"}, "exec " + own_sleep());
  run_on(at, {"--name", "late", "--mesh", "--set", "spawn.ready=1s"}, "exec " + own_sleep());
  run_on(at, {"--name", "stuck", "--mesh", "--set", "spawn.ready=2s"}, "kill -STOP $$");
  run_cli({"run", "--hosts", at, "--name", "absent", "--", "/no/such/file"});
  run_cli({"run", "--hosts", at, "--name", "denied", "--", "/etc/passwd"});
  run_cli({"run", "--hosts", at, "--name", "noformat", "--",
           dir.write("noformat", "just text\n", true)});
  run_cli({"run", "--hosts", at, "--name", "script", "--",
           dir.write("script", "#!/no/such/interpreter\n", true)});
  struct Row {
    std::string mesh, cause, reason;
    bool is_failure;
  };
  for (const auto& [mesh, cause, reason, is_failure] : std::vector<Row>{
           {"good", "exited", "exit 0", false},
           {"code", "exited", "exit 7", true},
           {"segv", "signaled", "killed by SIGSEGV", true},
           {"soft", "cpu_limit", "RLIMIT_CPU is 1 s", true},
           {"hard", "cpu_limit", "the hard RLIMIT_CPU is 2 s", true},
           {"deaf", "killed_after_grace", "killed by SIGKILL", false},
           {"timeout", "stopped", "killed by SIGTERM", false},
           {"late", "not_ready", "not ready within 1000 ms; stage: exec'd, no hello from it yet",
            true},
           {"stuck", "frozen", "it is frozen: stopped by a signal", true},
           {"absent", "exec_failed", "cannot execute '/no/such/file': No such file or directory",
            true},
           {"denied", "exec_failed", "cannot execute '/etc/passwd': Permission denied", true},
           {"noformat", "exec_failed", "Exec format error", true},
           {"script", "exec_failed", "interpreter /no/such/interpreter': No such file or directory",
            true},
       }) {
    INFO(mesh);
    const auto story = why(at, {mesh});
    INFO(story.dump(2));
    const auto ends = ends_of(at, mesh);
    REQUIRE(ends.size() == 1);
    const auto& end = ends.at(0);
    CHECK(end.at("cause") == cause);
    CHECK(end.at("reason").get<std::string>().find(reason) != std::string::npos);
    if (is_failure) CHECK(story.at("first").at("end").at("rank") == 0);
    if (mesh == "deaf" || mesh == "timeout") {
      CHECK(story.at("first").at("kind") == "stop_asked");
      CHECK(end.at("stop").at("step") == (mesh == "deaf" ? "kill" : "term"));
      CHECK(end.at("stop").at("reason").get<std::string>().starts_with(
          "the --timeout of 1000 ms is over"));
      CHECK(end.at("stop").at("by").get<std::string>().find(",client-") != std::string::npos);
    }
  }
}

TEST_CASE("why: knows meshes that their host has forgotten") {
  StandingHost host({"--set", "records.kept=0"});
  run_on(host.address(), {"--name", "old", "-n", "3", "--keep-going"}, "exit 6");
  const auto known = run_cli({"ps", "--all", "--json", "--hosts", host.address()});
  CHECK(parse_json(known.out).at("meshes").empty());
  CHECK(ends_of(host.address(), "old").size() == 3);
  CHECK(why(host.address(), {"old"}).at("first").at("end").at("exit_code") == 6);
}

TEST_CASE("why: knows what was before the agent was killed, and what it did not live to tell") {
  StandingHost host;
  const auto& at = host.address();
  CHECK(run_on(at, {"--name", "before"}, "echo early >&2; exit 5").status == ExitStatus::exited(5));
  SleepingRanks during(at, {"--name", "during", "--keep-going"}, 3);
  const auto roles = host.roles();
  REQUIRE(::kill(roles.agent, SIGKILL) == 0);
  REQUIRE(wait_until(
      [&] {
        const auto now = find_roles(roles.warden);
        return now && now->agent != roles.agent;
      },
      in_time));
  for (const auto& process : sleepers(during.sleep)) REQUIRE(::kill(process.pid, SIGUSR1) == 0);
  CHECK(during.process.wait_exit(in_time) == ExitStatus::exited(128 + SIGUSR1));
  const auto before = why(at, {"before"});
  CHECK(before.at("first").at("end").at("exit_code") == 5);
  CHECK(before.at("first").at("end").at("stderr_tail") == json({"early"}));
  const auto ends = ends_of(at, "during");
  REQUIRE(ends.size() == 3);
  for (const auto& [rank, end] : ends) CHECK(end.at("signal") == SIGUSR1);
  // The mesh lived while the agent died, and says so.
  std::set<std::string> kinds;
  const auto story = why(at, {"during"});
  for (const auto& event : story.at("events")) {
    kinds.insert(event.at("kind").get<std::string>());
    if (event.at("kind") == "role_ended")
      CHECK(event.at("text").get<std::string>().starts_with(
          "the agent was killed by SIGKILL: restarting it"));
  }
  CHECK(kinds.contains("role_ended"));
  CHECK(kinds.contains("agent_started"));
}

TEST_CASE("why: every end is told once although the agent dies at any moment") {
  StandingHost host;
  const auto& at = host.address();
  SleepingRanks mesh(at, {"--name", "many", "--keep-going"}, 24, "trap 'exit $RANK' USR1; ");
  const auto roles = host.roles();
  auto victims = sleepers(mesh.sleep);
  int round = 0;
  for (const auto& process : victims) {
    ::kill(process.pid, SIGUSR2);
    if (++round % 8 != 0) continue;
    const auto before = find_roles(roles.warden);
    REQUIRE(before);
    ::kill(before->agent, SIGKILL);
    REQUIRE(wait_until(
        [&] {
          const auto now = find_roles(roles.warden);
          return now && now->agent != before->agent;
        },
        in_time));
  }
  mesh.process.wait_exit(in_time);
  CHECK(ends_of(at, "many").size() == 24);
}

TEST_CASE("why: a launcher that is gone, and a host that was told to end, are what it began with") {
  StandingHost host;
  const auto& at = host.address();
  SleepingRanks orphans(at, {"--name", "orphans"}, 2);
  orphans.process.send_signal(SIGKILL);
  REQUIRE(wait_until([&] { return sleepers(orphans.sleep).empty(); }, in_time));
  REQUIRE(wait_until([&] { return ends_of(at, "orphans").size() == 2; }, in_time));
  const auto story = why(at, {"orphans"});
  INFO(story.dump(2));
  CHECK(story.at("first").at("kind") == "owner_gone");
  for (const auto& [rank, end] : ends_of(at, "orphans")) {
    CHECK(end.at("cause") == "owner_gone");
    CHECK(end.at("consequence") == true);
    CHECK(end.at("stop").at("reason") == "launcher gone");
  }
  // Somebody else stops it.
  SleepingRanks stopped(at, {"--name", "stopped"}, 2);
  CHECK(run_cli({"stop", "stopped", "--hosts", at}).status == ExitStatus::exited(0));
  stopped.process.wait_exit(in_time);
  const auto other = why(at, {"stopped"});
  CHECK(other.at("first").at("kind") == "stop_asked");
  CHECK(other.at("first").at("text").get<std::string>().find("meshbus stop") != std::string::npos);
  for (const auto& [rank, end] : ends_of(at, "stopped")) CHECK(end.at("consequence") == false);
}

TEST_CASE("why: ranks that went with a host which was started again are named") {
  const StandingHost stays({"--bind", "tcp:127.0.0.1:0", "--insecure"});
  std::optional<StandingHost> goes(Words{"--bind", "tcp:127.0.0.1:0", "--insecure"});
  const Words again{"--bind", goes->address(), "--insecure"};
  const auto hosts = stays.address() + "," + goes->address();
  const SleepingRanks ranks(hosts, {"--name", "half", "--keep-going"}, 2);
  CHECK(why(hosts, {"half"}).at("lost").empty());
  for (const pid_t pid : goes->roles().all()) ::kill(pid, SIGKILL);
  goes.reset();
  goes.emplace(again);
  const auto story = why(hosts, {"half"});
  INFO(story.dump(2));
  CHECK(story.at("lost") ==
        json::parse(R"([{"host": ")" + goes->address() + R"(", "ranks": "1"}])"));
  const auto told = run_cli({"why", "half[1]", "--hosts", hosts});
  INFO(told.err);
  CHECK(told.out.find("lost with their host:\n  rank 1 on " + goes->address() +
                      ": the host answers and knows nothing of this mesh") != std::string::npos);
}

TEST_CASE("why: with logs.directory the event log outlives its host, and has what ended with it") {
  const TempDir logs;
  {
    StandingHost host({"--set", "logs.directory=" + logs.path().string()});
    SleepingRanks mesh(host.address(), {"--name", "last"}, 2);
    CHECK(run_cli({"shutdown", "--hosts", host.address()}).status == ExitStatus::exited(0));
    mesh.process.wait_exit(in_time);
    host.process().wait_exit(in_time);
  }
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("events-")) text += read_file(entry.path());
  }
  std::vector<json> events;
  for (const auto& line : lines_of(text)) events.push_back(parse_json(line));
  REQUIRE(events.size() == 4);
  CHECK(events[0].at("kind") == "agent_started");
  CHECK(events[1].at("kind") == "host_stopping");
  for (const std::size_t i : {2U, 3U}) {
    CHECK(events[i].at("kind") == "proc_ended");
    CHECK(events[i].at("cause") == "host_ended");
    CHECK(events[i].at("consequence") == true);
    CHECK(events[i].at("stop_reason") == "meshbus shutdown");
  }
}

TEST_CASE("why: who dies with the keeper says so, and whether it was frozen") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    const TempDir logs;
    StandingHost host(
        {"--set", "frozen.limit=2s", "--set", "logs.directory=" + logs.path().string()});
    SleepingRanks mesh(host.address(), {"--name", "held", "--json", logs / "report"}, 2);
    REQUIRE(::kill(host.roles().keeper, signal) == 0);
    CHECK(mesh.process.wait_exit(in_time) == ExitStatus::exited(123));
    host.process().wait_exit(in_time);
    int ends = 0;
    bool is_told = false;
    for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
      if (!entry.path().filename().string().starts_with("events-")) continue;
      for (const auto& line : lines_of(read_file(entry.path()))) {
        const auto event = parse_json(line);
        INFO(line);
        if (event.at("kind") == "role_ended")
          is_told = is_told || event.at("text").get<std::string>().find(
                                   signal == SIGSTOP
                                       ? "it is frozen (stopped)"
                                       : "the keeper was killed by SIGKILL") != std::string::npos;
        if (event.at("kind") != "proc_ended") continue;
        ++ends;
        CHECK(event.at("cause") == (signal == SIGSTOP ? "frozen" : "keeper_lost"));
        CHECK(event.at("consequence") == true);
        CHECK(event.at("reason").get<std::string>().starts_with("keeper lost: "));
      }
    }
    CHECK(ends == 2);
    CHECK(is_told);
    // The launcher has heard it too.
    const auto report = parse_json(read_file(logs / "report"));
    for (const auto& rank : report.at("ranks"))
      CHECK(rank.at("cause") == (signal == SIGSTOP ? "frozen" : "keeper_lost"));
  }
}

TEST_CASE("why: an agent that is lost for good is what its launcher names") {
  const TempDir logs;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "-n", "2", "--stdin", "none", "--json", logs / "report", "--set",
                        "agent.restart=end", "--set", "logs.directory=" + logs.path().string(),
                        "--", "sh", "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  const auto wardens = wardens_of(launcher.pid());
  REQUIRE(wardens.size() == 1);
  const auto roles = find_roles(wardens.front());
  REQUIRE(roles);
  REQUIRE(::kill(roles->agent, SIGKILL) == 0);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(123));
  const auto report = parse_json(read_file(logs / "report"));
  INFO(report.dump(2));
  for (const auto& rank : report.at("ranks")) {
    CHECK(rank.at("cause") == "host_lost");
    CHECK(rank.at("consequence") == true);
  }
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("events-")) text += read_file(entry.path());
  }
  CHECK(text.find("the agent was killed by SIGKILL: ending the host, as configured") !=
        std::string::npos);
}

TEST_CASE("why: a torn record, and bytes that are none, cost nothing else") {
  StandingHost host;
  const auto& at = host.address();
  run_on(at, {"--name", "one"}, "exit 4");
  {
    std::ofstream log(log_of(host), std::ios::app | std::ios::binary);
    log << "{\"time\":\"torn\n"
        << std::string(300'000, 'x')
        << "\n{\"time_ns\":1,\"kind\":\"proc_ended\",\"rank\":\"no\"}\n\xff\xfe\n{\"time";
  }
  run_on(at, {"--name", "two"}, "exit 5");
  CHECK(why(at, {"one"}).at("first").at("end").at("exit_code") == 4);
  CHECK(why(at, {"two"}).at("first").at("end").at("exit_code") == 5);
}

TEST_CASE("why: a spawn that was refused is remembered") {
  StandingHost host;
  const auto& at = host.address();
  const auto held = run_cli({"drain", "--hold", "--reason", "new kernel", "--hosts", at});
  CHECK(held.status == ExitStatus::exited(0));
  const auto refused = run_on(at, {"--name", "fat"}, "exit 0");
  CHECK(refused.status == ExitStatus::exited(125));
  const auto story = why(at, {"fat"});
  CHECK(story.at("first").at("kind") == "spawn_refused");
}

TEST_CASE("why: what nobody knows is said, with the exit codes of the command line") {
  StandingHost host;
  const auto& at = host.address();
  CHECK(run_cli({"why", "--hosts", at}).status == ExitStatus::exited(1));
  CHECK(run_cli({"why", "nobody", "--hosts", at}).status == ExitStatus::exited(1));
  run_on(at, {"--name", "train"}, "exit 1");
  const auto near = run_cli({"why", "trian", "--hosts", at});
  CHECK(near.status == ExitStatus::exited(1));
  CHECK(near.err.find("know no mesh 'trian'") != std::string::npos);
  const auto rank = run_cli({"why", "train", "--rank", "9", "--hosts", at});
  CHECK(rank.status == ExitStatus::exited(1));
  CHECK(rank.err.find("no end of rank 9 is known") != std::string::npos);
  CHECK(run_cli({"why", "train", "--rank", "x", "--hosts", at}).status == ExitStatus::exited(2));
  CHECK(run_cli({"why", "--hosts", "nonsense"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"why", "--wrong"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"why", "3", "--rank", "4", "--hosts", at}).status == ExitStatus::exited(2));
  const auto gone =
      run_cli({"why", "train", "--timeout", "2s", "--hosts", at + ",unix:/no/such/socket"});
  CHECK(gone.status == ExitStatus::exited(1));
  CHECK(gone.out.find("exit 1") != std::string::npos);
  CHECK(gone.err.find("unix:/no/such/socket does not answer") != std::string::npos);
  // Alive: nothing of it has ended.
  SleepingRanks alive(at, {"--name", "alive"}, 1);
  const auto none = run_cli({"why", "alive", "--hosts", at});
  CHECK(none.status == ExitStatus::exited(0));
  CHECK(none.out.find("nothing of it has ended") != std::string::npos);
  alive.process.send_signal(SIGINT);
  alive.process.wait_exit(in_time);
}

namespace {

/// A memory cgroup of v1 with a limit, below that of this program; gone at the end of the scope.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(std::uint64_t bytes) {
    const auto own = meshbus::os::find_v1_cgroup("memory");
    REQUIRE(own);
    path_ = *own + "/meshbus-test-" + std::to_string(::getpid());
    REQUIRE(::mkdir(path_.c_str(), 0755) == 0);
    REQUIRE(meshbus::os::write_file(path_ + "/memory.limit_in_bytes", std::to_string(bytes)) == 0);
  }
  ~MemoryCgroup() {
    CHECK(wait_until([this] { return ::rmdir(path_.c_str()) == 0; }, in_time));
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("why: who was killed for want of memory is told apart from who was killed by somebody" *
          doctest::test_suite(need::v1_memory)) {
  constexpr std::uint64_t limit = 1 << 30;
  const MemoryCgroup memory(limit);
  Process host({"sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", memory.path(),
                bin("meshbus"), "host"});
  host.wait_for_output("\n", in_time);
  const auto at = parse_json(lines_of(host.out()).front()).at("host").get<std::string>();
  run_on(at, {"--name", "murdered"}, "kill -KILL $$");
  // It has no line that ends: all of it is kept.
  const auto hog = run_on(at, {"--name", "hungry", "-n", "2", "--rlimit", "as=4G"},
                          "[ $RANK = 0 ] && exec tail /dev/zero; exec " + own_sleep());
  CHECK(hog.status == ExitStatus::exited(128 + SIGKILL));
  CHECK(hog.err.find("out of memory: the kernel has killed for want of memory in " +
                     memory.path()) != std::string::npos);
  run_on(at, {"--name", "after"}, "kill -KILL $$");
  CHECK(ends_of(at, "murdered").at(0).at("cause") == "killed_from_outside");
  CHECK(ends_of(at, "hungry").at(0).at("cause") == "out_of_memory");
  CHECK(ends_of(at, "hungry").at(1).at("because") == 0);
  CHECK(ends_of(at, "after").at(0).at("cause") == "killed_from_outside");
  CHECK(ends_of(at, "after").at(0).at("reason") == "killed by SIGKILL from outside");
  host.send_signal(SIGTERM);
  CHECK(host.wait_exit(in_time) == ExitStatus::exited(0));
}
