// `meshbus why` (spec 4.9): what ended, and why, for any asker and however late.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "agent/os/cgroup.h"
#include "tests/integration/cli/why_world.h"
#include "tests/integration/needs.h"

namespace meshbus::test::why_world {

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
           {"late", "not_ready", "not ready within 1s; stage: exec'd, no hello from it yet", true},
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
  // Lists say it, too.
  for (const std::string command : {"ps", "status"}) {
    const auto listed = run_cli({command, "--all", "--hosts", at});
    INFO(listed.out);
    CHECK(listed.out.find("cannot execute '/no/such/file': No such file") != std::string::npos);
    CHECK(listed.out.find("not ready within 1s") != std::string::npos);
  }
}

TEST_CASE("why: ends of a rank in several attempts are counted") {
  StandingHost host;
  const auto& at = host.address();
  run_on(at, {"--name", "again", "--restart", "on-failure:3", "--restart-delay", "10ms"}, "exit 4");
  const auto shown = run_cli({"why", "again", "--hosts", at});
  INFO(shown.out);
  CHECK(shown.out.find("in earlier attempts:\n") != std::string::npos);
  CHECK(shown.out.find(": exit 4; 3 times, the last one at 20") != std::string::npos);
  const auto story = why(at, {"again"});
  CHECK(story.at("first").at("ends") == 1);
  CHECK(story.at("first").at("last") == story.at("first").at("time"));
  const auto& former = story.at("events").back();
  CHECK(former.at("role") == "former");
  CHECK(former.at("ends") == 3);
  CHECK(former.at("last").get<std::string>() > former.at("time").get<std::string>());
}

TEST_CASE("why: knows meshes that their host has forgotten") {
  StandingHost host({"--set", "records.kept=0"});
  run_on(host.address(), {"--name", "old", "-n", "3", "--keep-going"}, "exit 6");
  const auto known = run_cli({"ps", "--all", "--json", "--hosts", host.address()});
  CHECK(parse_json(known.out).at("meshes").empty());
  CHECK(ends_of(host.address(), "old").size() == 3);
  CHECK(why(host.address(), {"old"}).at("first").at("end").at("exit_code") == 6);
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
  CHECK(ends_of(at, "after").at(0).at("reason") == "killed by SIGKILL, not sent by meshbus");
  host.send_signal(SIGTERM);
  CHECK(host.wait_exit(in_time) == ExitStatus::exited(0));
}

}  // namespace meshbus::test::why_world
