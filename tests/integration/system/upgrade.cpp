// Spec 5.5: broker and agent of a host are replaced by those of another release while its procs
// run, and back. What does not become ready is taken back.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>

#include "common/base/release.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// How often the long test goes to the other release and back. Read before main(), which removes
/// all our variables from the environment.
const std::uint64_t upgrade_rounds = number_from_environment("MESHBUS_TEST_UPGRADES", 2);
constexpr int upgrade_ranks = 60;
constexpr const char* next_release = "0.2.0-next";

/// The folder of this build, and the one of the other release.
std::string this_folder() {
  return fs::canonical(bin("meshbus-agent")).parent_path();
}
std::string next_folder() {
  return this_folder() + "/next";
}

/// Writes five numbered lines again and again until DIR/stop is there, then how many they were; the
/// exit code is the rank.
const char* const steady_writer = R"(
  i=0
  while [ ! -e "$DIR/stop" ]; do
    for j in 1 2 3 4 5; do echo "$RANK $$ $i"; i=$((i+1)); done
    sleep 0.2
  done
  echo "$RANK $$ end $i"
  exit $RANK)";

Finished upgrade(const std::string& host, const Words& more) {
  Words words = {"upgrade", "--hosts", host};
  words.insert(words.end(), more.begin(), more.end());
  return run_cli(words);
}

Finished upgrade_to(const std::string& host, const std::string& folder) {
  return upgrade(host, {"--programs", folder});
}

/// What `ps` tells of a host.
json told_of(const std::string& host) {
  const auto ps = run_cli({"ps", "--hosts", host, "--json"});
  INFO(ps.err);
  REQUIRE(ps.status == ExitStatus::exited(0));
  return parse_json(ps.out).at("hosts").front();
}

/// "RELEASE PROGRAM PID" of a role.
json role_of(const json& host, const std::string& role) {
  for (const auto& one : host.at("roles")) {
    if (one.at("role") == role) return one;
  }
  FAIL("no role " << role << " in " << host.dump());
  return {};
}

/// A folder that this test may fill with programs.
class ProgramFolder {
 public:
  /// Links to the programs of this build.
  ProgramFolder() {
    for (const char* const program : {"meshbus-broker", "meshbus-agent", "meshbus-exporter"})
      fs::create_symlink(this_folder() + "/" + program, fs::path(path()) / program);
  }
  std::string path() const { return fs::canonical(dir_.path()); }
  void remove(const std::string& program) { fs::remove(fs::path(path()) / program); }
  /// A shell script takes its place. It says its release as the program does.
  void replace(const std::string& program, const std::string& script) {
    remove(program);
    const auto file = fs::path(path()) / program;
    std::ofstream(file) << "#!/bin/sh\n[ \"$1\" = --release ] && exec " << this_folder() << "/"
                        << program << " --release\n"
                        << script << "\n";
    REQUIRE(::chmod(file.c_str(), 0755) == 0);
  }

 private:
  TempDir dir_;
};

/// Two procs that must not notice anything.
class Bystanders {
 public:
  explicit Bystanders(const StandingHost& host) : host_(host), job_(host.address(), "by", 2) {
    pids_ = pids();
    REQUIRE(pids_.size() == 2);
  }
  void check() {
    CHECK(pids() == pids_);
    CHECK(job_.process().is_running());
    CHECK(job_.left() == 2);
  }

 private:
  std::vector<json> pids() const {
    const auto ps = run_cli({"ps", "--hosts", host_.address(), "--json"});
    std::vector<json> found;
    const auto meshes = parse_json(ps.out).at("meshes");
    for (const auto& mesh : meshes) {
      for (const auto& rank : mesh.at("ranks")) found.push_back(rank.at("pid"));
    }
    return found;
  }

  const StandingHost& host_;
  SleepingJob job_;
  std::vector<json> pids_;
};

/// Every line of every rank once and in order, all by one process, and exit codes by rank.
void check_steady_lines(const std::string& out, const json& report) {
  struct Writer {
    long pid = 0;
    int next = 0;
    int end = -1;
  };
  std::map<int, Writer> writers;
  for (const auto& shown : lines_of(out)) {
    const auto prefix = shown.find("] ");
    REQUIRE(prefix != std::string::npos);
    const auto line = shown.substr(prefix + 2);
    int rank = 0;
    long pid = 0;
    int number = 0;
    const bool is_end = std::sscanf(line.c_str(), "%d %ld end %d", &rank, &pid, &number) == 3;
    if (!is_end) REQUIRE(std::sscanf(line.c_str(), "%d %ld %d", &rank, &pid, &number) == 3);
    auto& one = writers[rank];
    if (one.pid == 0) one.pid = pid;
    CHECK(one.pid == pid);
    CHECK(number == one.next);
    if (is_end)
      one.end = number;
    else
      one.next = number + 1;
  }
  REQUIRE(writers.size() == upgrade_ranks);
  REQUIRE(report.at("ranks").size() == upgrade_ranks);
  int lines = 0;
  for (int rank = 0; rank < upgrade_ranks; ++rank) {
    const auto& told = report.at("ranks").at(static_cast<std::size_t>(rank));
    CHECK(writers[rank].end == writers[rank].next);
    CHECK(told.at("pid") == writers[rank].pid);
    CHECK(told.at("exit_code") == rank);
    lines += writers[rank].next;
  }
  MESSAGE(lines << " lines of " << upgrade_ranks << " ranks");
}

}  // namespace

TEST_CASE(
    "upgrade: 60 writing ranks, two releases, to and fro: same pids, all lines, all exit codes") {
  StandingHost host;
  const TempDir dir;
  Process launcher(
      cli({"run", "--hosts", host.address(), "-n", std::to_string(upgrade_ranks), "--keep-going",
           "--stdin", "none", "--json", dir / "report", "--", "sh", "-c", steady_writer}),
      {.environment = {{"DIR", dir.path().string()}}});
  REQUIRE(wait_until(
      [&] {
        return launcher.out().find("\n") != std::string::npos &&
               told_of(host.address()).at("live") == upgrade_ranks;
      },
      in_time));
  const auto first = host.roles();
  pid_t agent = first.agent;
  pid_t broker = first.broker;
  for (std::uint64_t round = 0; round < 2 * upgrade_rounds; ++round) {
    const bool is_next = round % 2 == 0;
    const std::string folder = is_next ? next_folder() : this_folder();
    const std::string release = is_next ? next_release : std::string(meshbus::this_release());
    const auto done = upgrade_to(host.address(), folder);
    INFO(done.out << done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
    CHECK(has(done.out, release));
    const auto told = told_of(host.address());
    for (const std::string role : {"broker", "agent"}) {
      const auto now = role_of(told, role);
      CHECK(now.at("release") == release);
      CHECK(now.at("program") == folder + "/meshbus-" + role);
      if (::geteuid() == 0)
        CHECK(fs::read_symlink("/proc/" + now.at("pid").dump() + "/exe") ==
              folder + "/meshbus-" + role);
    }
    CHECK(told.at("version") == release);
    CHECK(told.at("upgrade").at("outcome") == "done");
    CHECK(told.at("upgrade").at("number") == round + 1);
    const auto roles = find_roles(first.warden);
    REQUIRE(roles);
    CHECK(roles->keeper == first.keeper);
    CHECK(role_of(told, "keeper").at("pid") == first.keeper);
    CHECK(roles->agent != std::exchange(agent, roles->agent));
    CHECK(roles->broker != std::exchange(broker, roles->broker));
    CHECK(told.at("live") == upgrade_ranks);
    // Mixed releases are said where people look.
    CHECK(has(run_cli({"ps", "--hosts", host.address()}).out,
              "releases: warden and keeper " + std::string(meshbus::this_release())) == is_next);
  }
  std::ofstream(dir / "stop") << "stop\n";
  launcher.wait_exit(in_time);
  INFO(launcher.err());
  check_steady_lines(launcher.out(), parse_json(read_file(dir / "report")));
  CHECK(host.process().is_running());
  CHECK(!has(host.process().err(), "restarting it"));
}

TEST_CASE("upgrade: the calls of mesh procs go on, and the trail says who asked") {
  StandingHost host;
  Process run(cli({"run", "--hosts", host.address(), "-n", "2", "--name", "talk", "--mesh", "--",
                   bin("meshbus_test_actors")}));
  INFO(run.describe());
  const auto is_running = [&] {
    return run_cli({"status", "--hosts", host.address(), "talk", "--wait", "running"}).status ==
           ExitStatus::exited(0);
  };
  REQUIRE(wait_until(is_running, in_time));
  const auto call = [&] {
    return run_cli({"call", "--hosts", host.address(), "talk", "1", "hello"});
  };
  const auto before = call();
  INFO(before.err);
  REQUIRE(before.status == ExitStatus::exited(0));
  for (int round = 0; round < 2; ++round) {
    const auto done = upgrade_to(host.address(), next_folder());
    INFO(done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
    const auto after = call();
    INFO(after.err);
    CHECK(after.out == before.out);
    CHECK(run.is_running());
  }
  const auto trail =
      parse_json(run_cli({"audit", "--hosts", host.address(), "--json", "--verb", "upgrade"}).out)
          .at("entries");
  REQUIRE(trail.size() == 2);
  CHECK(trail.front().at("what") == "programs of " + next_folder());
  CHECK(trail.front().at("by") == "uid " + std::to_string(::geteuid()));
  CHECK(trail.front().at("outcome") == "ok");
  run.send_signal(SIGTERM);
  run.wait_exit(in_time);
}

TEST_CASE("upgrade: `host --upgrade` takes the programs where they are now, the exporter's too") {
  const TempDir dir;
  StandingHost host({"--metrics", "unix:" + (dir / "metrics")});
  Bystanders others(host);
  const auto exporter = [&]() -> pid_t {
    for (const auto& child : children_of(host.process().pid())) {
      if (child.name == "meshbus-exporte" && !child.is_dead()) return child.pid;
    }
    return 0;
  };
  REQUIRE(wait_until([&] { return exporter() != 0; }, in_time));
  const pid_t served = exporter();
  const auto before = host.roles();
  // Without it every host of this user is meant, those of other tests as well.
  const ProcessOptions only_this{.environment = {{"MESHBUS_HOSTS", host.address()}}};
  const auto done = run_cli({"host", "--upgrade"}, only_this);
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(has(done.out, "broker and agent are those in " + this_folder()));
  CHECK(wait_until([&] { return exporter() != 0 && exporter() != served; }, in_time));
  const auto after = find_roles(before.warden);
  REQUIRE(after);
  CHECK(after->agent != before.agent);
  CHECK(after->broker != before.broker);
  others.check();
}

TEST_CASE("upgrade: an agent that does not become ready is taken back, and the broker with it") {
  StandingHost host;
  Bystanders others(host);
  ProgramFolder folder;
  folder.replace("meshbus-agent", "exit 7");
  const auto done = upgrade_to(host.address(), folder.path());
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(has(done.err, "the agent in " + folder.path() + " exited with code 7 before it was ready"));
  CHECK(has(done.err, "those of before, started again"));
  const auto told = told_of(host.address());
  CHECK(told.at("upgrade").at("outcome") == "rolled_back");
  for (const std::string role : {"broker", "agent"})
    CHECK(role_of(told, role).at("program") == this_folder() + "/meshbus-" + role);
  CHECK(has(run_cli({"ps", "--hosts", host.address()}).out, "was rolled back"));
  others.check();
  // The next one is another one.
  CHECK(upgrade_to(host.address(), next_folder()).status == ExitStatus::exited(0));
  CHECK(told_of(host.address()).at("upgrade").at("outcome") == "done");
  others.check();
}

TEST_CASE("upgrade: a broker that hangs is taken back in time") {
  StandingHost host;
  Bystanders others(host);
  ProgramFolder folder;
  folder.replace("meshbus-broker", "exec sleep 300");
  const auto done = upgrade_to(host.address(), folder.path());
  CHECK(done.status == ExitStatus::exited(1));
  CHECK(has(done.err, "was not ready within 5s"));
  const auto told = told_of(host.address());
  CHECK(told.at("upgrade").at("outcome") == "rolled_back");
  CHECK(role_of(told, "broker").at("program") == this_folder() + "/meshbus-broker");
  others.check();
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
}

TEST_CASE("upgrade: a host that is told to end meanwhile ends in order, and nothing is left") {
  for (const bool is_broker : {true, false}) {
    StandingHost host;
    SleepingJob job(host.address(), "by", 2);
    ProgramFolder folder;
    folder.replace(is_broker ? "meshbus-broker" : "meshbus-agent", "exec sleep 300");
    Process verb(cli(
        {"upgrade", "--hosts", host.address(), "--programs", folder.path(), "--timeout", "8s"}));
    const auto is_hanging = [&] {
      const auto children = children_of(host.process().pid());
      return std::any_of(children.begin(), children.end(), [](const auto& child) {
        return !child.is_dead() && child.name == "sleep";
      });
    };
    REQUIRE(wait_until(is_hanging, in_time));
    host.process().send_signal(SIGTERM);
    CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(job.left() == 0);
    CHECK(verb.wait_exit(in_time) == ExitStatus::exited(1));
  }
}

TEST_CASE("upgrade: the host that `run` has started for itself is upgraded, too") {
  const TempDir dir;
  const std::string go = dir / "go";
  const auto before = host_directories();
  Process launcher(cli({"run", "-n", "2", "--", "sh", "-c",
                        "echo up; until [ -e " + go + " ]; do sleep 0.05; done; echo done"}));
  launcher.wait_for_output("up\n", in_time);
  std::string host;
  for (const auto& directory : host_directories()) {
    if (std::find(before.begin(), before.end(), directory) == before.end())
      host = "unix:" + (directory / "bus").string();
  }
  const auto done = upgrade_to(host, next_folder());
  INFO(done.err);
  CHECK(done.status == ExitStatus::exited(0));
  CHECK(has(done.out, next_release));
  std::ofstream(go) << "go\n";
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(has(launcher.out(), "done\n"));
}

TEST_CASE("upgrade: what cannot take over is refused, and nothing is replaced") {
  StandingHost host;
  const auto before = host.roles();
  const auto refused = [&](const std::string& folder, const std::string& why) {
    const auto done = upgrade_to(host.address(), folder);
    CAPTURE(folder);
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(1));
    CHECK(has(done.err, why));
  };
  refused("/no/such/folder", "No such file or directory");
  {
    const TempDir empty;
    refused(empty.path(), "has no meshbus-broker");
  }
  {
    ProgramFolder folder;
    folder.remove("meshbus-agent");
    fs::create_symlink("/bin/false", fs::path(folder.path()) / "meshbus-agent");
    refused(folder.path(), "meshbus-agent");
  }
  {
    ProgramFolder folder;
    folder.remove("meshbus-broker");
    fs::create_symlink("/bin/echo", fs::path(folder.path()) / "meshbus-broker");
    refused(folder.path(), "it is no meshbus-broker");
  }
  {
    ProgramFolder folder;
    folder.replace("meshbus-agent", "exit 1");
    std::ofstream(fs::path(folder.path()) / "meshbus-agent")
        << "#!/bin/sh\necho meshbus-agent 9.0.0\necho takes over: keeper 99.99, ledger 9\n";
    refused(folder.path(), "release 9.0.0 cannot go on with the procs of this host");
  }
  {
    ProgramFolder folder;
    REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
    refused(folder.path(), "may be changed by others");
  }
  CHECK(upgrade(host.address(), {"--programs", "not/absolute"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"host", "--upgrade", "--insecure"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"host", "--programs", "/"}).status == ExitStatus::exited(2));
  const auto after = find_roles(before.warden);
  REQUIRE(after);
  CHECK(after->all() == before.all());
  CHECK(told_of(host.address()).at("upgrade").is_null());
}

TEST_CASE("upgrade: an operator may have it by tcp, an observer may not") {
  const TempDir keys;
  const std::string folder = keys.path();
  for (const Words& one :
       {Words{"host", "127.0.0.1"}, {"operator", "alice"}, {"observer", "eve"}}) {
    REQUIRE(run_cli({"keygen", "--dir", folder, one[0], one[1]}).status == ExitStatus::exited(0));
  }
  const auto as = [&folder](const std::string& name) {
    return ProcessOptions{.environment = {{"MESHBUS_KEYS_DIRECTORY", folder},
                                          {"MESHBUS_KEYS_OWN", folder + "/" + name + ".key"}}};
  };
  StandingHost host({"--bind", "tcp:127.0.0.1:0"},
                    {.environment = {{"MESHBUS_KEYS_DIRECTORY", folder}}});
  const auto before = host.roles();
  const TempDir dir;
  const std::string go = dir / "go";
  Process launcher(cli({"run", "--hosts", host.address(), "--", "sh", "-c",
                        "echo up; until [ -e " + go + " ]; do sleep 0.05; done; echo done"}),
                   as("alice"));
  launcher.wait_for_output("up\n", in_time);
  const Words order = {"upgrade", "--hosts", host.address(), "--programs", next_folder()};
  const auto refused = run_cli(order, as("eve"));
  INFO(refused.err);
  CHECK(refused.status == ExitStatus::exited(1));
  const auto still = find_roles(before.warden);
  REQUIRE(still);
  CHECK(still->all() == before.all());
  for (int round = 0; round < 3; ++round) {
    const auto done = run_cli(order, as("alice"));
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(0));
    CHECK(launcher.is_running());
  }
  const auto trail =
      parse_json(
          run_cli({"audit", "--hosts", host.address(), "--json", "--verb", "upgrade"}, as("alice"))
              .out)
          .at("entries");
  REQUIRE(trail.size() == 4);
  CHECK(trail[0].at("by") == "observer eve");
  CHECK(trail[0].at("outcome") != "ok");
  CHECK(trail[3].at("by") == "operator alice");
  CHECK(trail[3].at("outcome") == "ok");
  std::ofstream(go) << "go\n";
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(launcher.out().find("done\n") != std::string::npos);
}
