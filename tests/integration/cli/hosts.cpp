// `meshbus host`, `ps`, `stop`, `shutdown`, and runs on hosts that stand.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <set>

#include "common/base/unique_fd.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using meshbus::UniqueFd;
using nlohmann::json;

namespace {

json ps(const std::string& hosts, const Words& more = {}) {
  Words words = {"ps", "--json", "--hosts", hosts};
  words.insert(words.end(), more.begin(), more.end());
  const auto finished = run_cli(words);
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  return parse_json(finished.out);
}

/// A run whose rank ignores SIGTERM, and a stop that waits for that rank.
struct DeafMesh {
  Process launcher;
  Process stop;

  explicit DeafMesh(const std::string& hosts)
      : launcher(cli({"run", "--hosts", hosts, "--name", "deaf", "--grace", "100s", "--no-prefix",
                      "--", "sh", "-c", "trap '' TERM; echo up; exec " + own_sleep()})),
        stop(begin_stop(launcher, hosts)) {
    const auto is_stopping = [&] {
      return run_cli({"ps", "--hosts", hosts}).out.find(" stopping") != std::string::npos;
    };
    REQUIRE(wait_until(is_stopping, in_time));
  }
  static Process begin_stop(Process& launcher, const std::string& hosts) {
    launcher.wait_for_output("up\n", in_time);
    return Process(cli({"stop", "deaf", "--grace", "100s", "--timeout", "200s", "--hosts", hosts}));
  }
  /// The host has ended: so do the stop, within `limit`, and the run.
  void check_ended(std::chrono::milliseconds limit) {
    CHECK(stop.wait_exit(limit) == ExitStatus::exited(0));
    INFO(stop.err());
    CHECK(stop.out().find(": 1 rank ended") != std::string::npos);
    CHECK(launcher.wait_exit(in_time).code.has_value());
  }
};

/// A run on hosts whose ranks sleep until they are stopped.
struct SleepingMesh {
  std::string sleep = own_sleep();
  Process process;
  SleepingMesh(const std::string& hosts, const std::string& name, int ranks)
      : process(cli({"run", "--hosts", hosts, "-n", std::to_string(ranks), "--name", name, "--",
                     "sh", "-c", "exec " + sleep})) {
    const auto are_up = [&] {
      return sleepers(sleep).size() == static_cast<std::size_t>(ranks) || !process.is_running();
    };
    wait_until(are_up, in_time);
    INFO(process.describe());
    REQUIRE(process.is_running());
    REQUIRE(sleepers(sleep).size() == static_cast<std::size_t>(ranks));
  }
  bool is_gone() const { return sleepers(sleep).empty(); }
};

}  // namespace

TEST_CASE(
    "cli: a host says in one line of JSON where it is, and its processes have telling names") {
  StandingHost host;
  const json& ready = host.ready();
  INFO(ready.dump());
  const std::string run_dir = ready.at("run_dir").get<std::string>();
  CHECK(run_dir.starts_with((environment_root() / "run" / "meshbus" / "host-").string()));
  CHECK(host.address() == "unix:" + run_dir + "/bus");
  CHECK((ready.at("containment") == "cgroup v2" || ready.at("containment") == "sweep"));
  CHECK(host.process().out().find('\n') == host.process().out().size() - 1);
  const Roles roles = host.roles();
  CHECK(roles.warden == host.process().pid());
  const auto found = find_roles(roles.warden);
  REQUIRE(found);
  CHECK(found->all() == roles.all());
  CHECK(find_process(roles.warden)->command.find("meshbus host") != std::string::npos);
  CHECK(find_process(roles.keeper)->name == "meshbus-keeper");
  CHECK(find_process(roles.agent)->name == "meshbus-agent");
  CHECK(find_process(roles.broker)->name == "meshbus-broker");
  // Nobody else may come near its socket.
  CHECK(std::filesystem::status(run_dir).permissions() == std::filesystem::perms::owner_all);

  host.process().send_signal(SIGTERM);
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(host_directories().empty());
  CHECK(host.process().err() == "");
}

TEST_CASE("cli: a host tells its starter on --ready-fd, and fails there when it cannot start") {
  const auto ready_line = [](const Words& options, int code) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    Words words = {"host", "--quiet", "--ready-fd", std::to_string(writer.get())};
    words.insert(words.end(), options.begin(), options.end());
    Process host(cli(words), {.inherit = {writer.get()}});
    writer.reset();
    std::string text;
    const auto read_all = [&] {  // to its end: the host closes it after the line
      std::array<char, 4096> bytes{};
      pollfd ready{reader.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) return false;
      const ssize_t got = ::read(reader.get(), bytes.data(), bytes.size());
      if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
      return got == 0;
    };
    REQUIRE(wait_until(read_all, in_time));
    if (code == 0) host.send_signal(SIGTERM);
    const auto status = host.wait_exit(in_time);
    INFO(host.describe());
    CHECK(host.out() == "");
    if (code == 0) {
      CHECK(status == ExitStatus::exited(0));
    } else {
      CHECK(status.code.value_or(0) != 0);
      CHECK(host.err().find(parse_json(text).at("error").get<std::string>()) != std::string::npos);
    }
    REQUIRE(text.find('\n') == text.size() - 1);
    return parse_json(text);
  };
  const json ready = ready_line({}, 0);
  CHECK(ready.at("host").get<std::string>().starts_with("unix:/"));
  CHECK(ready.at("pid").get<pid_t>() > 1);
  const json failed = ready_line({"--run-dir", "/proc/nowhere"}, 78);
  CHECK(failed.at("error").get<std::string>().find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("cli: ps shows hosts, meshes and procs, as text and as JSON") {
  StandingHost host;
  const json empty = ps(host.address());
  REQUIRE(empty.at("hosts").size() == 1);
  CHECK(empty.at("meshes").empty());
  CHECK(empty.at("hosts")[0].at("host") == host.address());
  CHECK(empty.at("hosts")[0].at("pid") == host.ready().at("agent_pid"));
  CHECK(empty.at("hosts")[0].at("containment") == host.ready().at("containment"));
  CHECK(empty.at("hosts")[0].at("live") == 0);
  CHECK(empty.at("hosts")[0].at("error") == nullptr);

  SleepingMesh mesh(host.address(), "napping", 2);
  const json full = ps(host.address());
  INFO(full.dump(2));
  CHECK(full.at("hosts")[0].at("live") == 2);
  REQUIRE(full.at("meshes").size() == 1);
  const json& shown = full.at("meshes")[0];
  const std::string name = shown.at("mesh").get<std::string>();
  CHECK(name.starts_with("napping-"));
  CHECK(shown.at("region") == "host=1/2,proc=2/1");
  CHECK(shown.at("command").get<std::string>().find(mesh.sleep) != std::string::npos);
  CHECK(shown.at("owner").get<std::string>().find("client-") != std::string::npos);
  REQUIRE(shown.at("ranks").size() == 2);
  std::set<pid_t> pids, expected;
  for (const auto& one : sleepers(mesh.sleep)) expected.insert(one.pid);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(shown.at("ranks")[rank].at("rank") == rank);
    CHECK(shown.at("ranks")[rank].at("status") == "ready");
    CHECK(shown.at("ranks")[rank].at("host") == host.address());
    pids.insert(shown.at("ranks")[rank].at("pid").get<pid_t>());
  }
  CHECK(pids == expected);

  // Without --hosts: every host of this user on this machine, ours among them.
  const auto text = run_cli({"ps"});
  INFO(text.out << text.err);
  CHECK(text.out.find("host " + host.address()) != std::string::npos);
  CHECK(text.out.find("mesh " + name) != std::string::npos);
  for (const pid_t pid : pids) CHECK(text.out.find(std::to_string(pid)) != std::string::npos);

  mesh.process.send_signal(SIGINT);
  CHECK(mesh.process.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(ps(host.address()).at("meshes").empty());
  const json ended = ps(host.address(), {"--all"});
  INFO(ended.dump(2));
  REQUIRE(ended.at("meshes").size() == 1);
  CHECK(ended.at("meshes")[0].at("ranks")[0].at("status") == "stopped");
  CHECK(ended.at("meshes")[0].at("ranks")[0].at("signal") == SIGTERM);
  CHECK(ended.at("meshes")[0].at("ranks")[0].at("reason").get<std::string>().find("SIGTERM") !=
        std::string::npos);
  CHECK(ended.at("hosts")[0].at("live") == 0);
}

TEST_CASE("cli: ps names a host that does not answer, and shows the others") {
  StandingHost host;
  const std::string absent = "unix:" + (environment_root() / "run" / "no-such-socket").string();
  const auto finished =
      run_cli({"ps", "--json", "--timeout", "2s", "--hosts", host.address() + "," + absent});
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  const json shown = parse_json(finished.out);
  REQUIRE(shown.at("hosts").size() == 2);
  CHECK(shown.at("hosts")[0].at("error") == nullptr);
  CHECK(shown.at("hosts")[1].at("host") == absent);
  CHECK(shown.at("hosts")[1].at("error").is_string());
  const auto run_there = run_cli({"run", "--hosts", absent, "--", "true"});
  CHECK(run_there.status == ExitStatus::exited(125));
  CHECK(run_there.err.find(absent) != std::string::npos);
}

TEST_CASE(
    "cli: ping says how long each host takes, and fails when one of them does not answer, or there "
    "is none") {
  StandingHost host;
  const auto all_here = run_cli({"ping", "--hosts", host.address()});
  INFO(all_here.out << all_here.err);
  CHECK(all_here.status == ExitStatus::exited(0));
  CHECK(all_here.out.starts_with(host.address() + "  "));
  CHECK(all_here.out.find(" ms  meshbus ") != std::string::npos);

  const std::string absent = "unix:" + (environment_root() / "run" / "no-such-socket").string();
  const auto some = run_cli({"ping", "--json", "--hosts", absent + "," + host.address()});
  INFO(some.out << some.err);
  CHECK(some.status == ExitStatus::exited(1));
  const json shown = parse_json(some.out);
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].at("host") == absent);
  CHECK(shown[0].at("ms") == nullptr);
  CHECK(shown[0].at("error").get<std::string>().starts_with("nothing listens there"));
  CHECK(shown[1].at("host") == host.address());
  CHECK(shown[1].at("node").is_string());
  CHECK(shown[1].at("ms").get<double>() > 0);
  CHECK(shown[1].at("error") == nullptr);

  // A frozen host is there, and does not answer.
  const Roles roles = host.roles();
  REQUIRE(::kill(roles.agent, SIGSTOP) == 0);
  const auto frozen = run_cli({"ping", "--timeout", "500ms", "--hosts", host.address()});
  ::kill(roles.agent, SIGCONT);
  INFO(frozen.out << frozen.err);
  CHECK(frozen.status == ExitStatus::exited(1));
  CHECK(frozen.out.find("does not answer") != std::string::npos);
  CHECK(frozen.elapsed < in_time);

  host.process().send_signal(SIGTERM);
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
  // Healthchecks ask so.
  const TempDir empty;
  const auto none =
      run_cli({"ping"}, {.environment = {{"XDG_RUNTIME_DIR", empty.path().string()}}});
  if (none.out.empty()) {  // else somebody else's host of this user lives in /tmp
    CHECK(none.status == ExitStatus::exited(1));
    CHECK(none.err.find("no host of yours") != std::string::npos);
  }
}

TEST_CASE("cli: stop ends a mesh by its base name, and its launcher hears of it") {
  StandingHost host;
  SleepingMesh one(host.address(), "one", 2), other(host.address(), "other", 1);
  const auto stopped = run_cli({"stop", "one", "--hosts", host.address()});
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(stopped.out.starts_with("stopped one-"));
  CHECK(stopped.out.find(": 2 ranks ended") != std::string::npos);
  CHECK(one.is_gone());
  CHECK_FALSE(other.is_gone());
  // Ended because somebody asked: no failure.
  CHECK(one.process.wait_exit(in_time) == ExitStatus::exited(143));

  const auto missing = run_cli({"stop", "nothing", "--hosts", host.address()});
  CHECK(missing.status == ExitStatus::exited(1));
  CHECK(missing.err.find("no mesh 'nothing'") != std::string::npos);

  const std::string full_name = ps(host.address()).at("meshes")[0].at("mesh").get<std::string>();
  CHECK(full_name.starts_with("other-"));
  const auto json_stop = run_cli({"stop", full_name, "--json", "--hosts", host.address()});
  CHECK(json_stop.status == ExitStatus::exited(0));
  CHECK(parse_json(json_stop.out).at(0).at("mesh") == full_name);
  CHECK(other.process.wait_exit(in_time) == ExitStatus::exited(143));
}

TEST_CASE("cli: a stop that waits for ranks ends when their host has ended") {
  StandingHost host;
  DeafMesh deaf(host.address());
  REQUIRE(::kill(host.roles().warden, SIGKILL) == 0);
  deaf.check_ended(in_time);
}

TEST_CASE("cli: a stop whose question nobody answers ends with the host that ends in order") {
  StandingHost host({"--grace", "10ms"});
  DeafMesh deaf(host.address());
  const auto roles = host.roles();
  REQUIRE(::kill(roles.agent, SIGSTOP) == 0);
  REQUIRE(::kill(roles.warden, SIGTERM) == 0);
  REQUIRE(wait_until([&] { return is_gone(roles.warden); }, in_time));
  // It waited for 5 s for an answer, and for 2 s more.
  deaf.check_ended(4s);
}

TEST_CASE("cli: shutdown ends hosts and their procs, and the address can be bound again at once") {
  const TempDir dir;
  const Words tcp_host = {"--insecure", "--bind", "tcp:127.0.0.1:0"};
  StandingHost one(tcp_host);
  {
    StandingHost other(
        {"--insecure", "--bind", "tcp:127.0.0.1:0", "--advertise", "tcp:127.0.0.1:0"});
    INFO(other.ready().dump());
    const std::string tcp = other.address();
    SleepingMesh mesh(one.address() + "," + tcp, "both", 2);
    const auto down = run_cli({"shutdown", "--hosts", one.address() + "," + tcp});
    INFO(down.out << down.err);
    CHECK(down.status == ExitStatus::exited(0));
    // When one host has ended its rank, the launcher may stop the other one before its host does.
    CHECK((down.out == "2 hosts are down; 2 of 2 procs ended\n" ||
           down.out == "2 hosts are down; 1 of 1 procs ended\n"));
    CHECK(mesh.is_gone());
    StandingHost again({"--insecure", "--bind", tcp, "--advertise", tcp});
    CHECK(again.address() == tcp);
    CHECK(one.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(other.process().wait_exit(in_time) == ExitStatus::exited(0));
    CHECK(mesh.process.wait_exit(in_time).code.has_value());
    const auto second = run_cli({"shutdown", "--json", "--hosts", tcp});
    CHECK(second.status == ExitStatus::exited(0));
    CHECK(parse_json(second.out) ==
          json({{"hosts", 1}, {"attempted", 0}, {"ok", 0}, {"failed", 0}}));
    CHECK(again.process().wait_exit(in_time) == ExitStatus::exited(0));
  }
  CHECK(host_directories().empty());
}

TEST_CASE("cli: shutdown kills what ignores SIGTERM after the grace, and only then says so") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", host.address(), "--no-prefix", "--", "sh", "-c",
                        "trap '' TERM; echo up; exec " + sleep}));
  launcher.wait_for_output("up\n", in_time);
  const auto down = run_cli({"shutdown", "--hosts", host.address(), "--grace", "300ms"});
  INFO(down.out << down.err);
  CHECK(down.status == ExitStatus::exited(0));
  CHECK(down.elapsed >= 300ms);
  CHECK(sleepers(sleep).empty());
  CHECK(launcher.wait_exit(in_time).code.has_value());
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
}

TEST_CASE("cli: plain tcp is refused without --insecure, and warned of with it") {
  const auto refused = run_cli({"host", "--bind", "tcp:127.0.0.1:0"});
  INFO(refused.err);
  CHECK(refused.status.code.value_or(0) != 0);
  CHECK(refused.err.find("--insecure") != std::string::npos);
  CHECK(refused.err.find("tcp:127.0.0.1:0") != std::string::npos);

  StandingHost one({"--insecure", "--bind", "tcp:127.0.0.1:0"}),
      other({"--insecure", "--bind", "tcp:127.0.0.1:0"});
  INFO(one.ready().dump());
  for (StandingHost* host : {&one, &other}) {
    CHECK(host->address().starts_with("tcp:127.0.0.1:"));
    CHECK_FALSE(host->address().ends_with(":0"));
    CHECK(host->process().err().find("insecure") != std::string::npos);
  }
  const auto finished =
      run_cli({"run", "--hosts", one.address() + "," + other.address(), "--per-host", "gpus=2",
               "--name", "t", "--", "sh", "-c", "echo $RANK $MASTER_ADDR"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(sorted(lines_of(finished.out)) ==
        Words{"[t/0 host=0,gpus=0] 0 127.0.0.1", "[t/1 host=0,gpus=1] 1 127.0.0.1",
              "[t/2 host=1,gpus=0] 2 127.0.0.1", "[t/3 host=1,gpus=1] 3 127.0.0.1"});
}

TEST_CASE("cli: two launchers on the same hosts do not meet") {
  StandingHost one, two;
  const std::string hosts = one.address() + "," + two.address();
  const Words words = {"run",    "--hosts", hosts, "-n", "20", "--no-prefix",
                       "--name", "same",    "--",  "sh", "-c", "echo $WORD $RANK"};
  Process first(cli(words), {.environment = {{"WORD", "first"}}}),
      second(cli(words), {.environment = {{"WORD", "second"}}});
  Words expected_first, expected_second;
  for (int rank = 0; rank < 20; ++rank) {
    expected_first.push_back("first " + std::to_string(rank));
    expected_second.push_back("second " + std::to_string(rank));
  }
  CHECK(first.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(second.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(sorted(lines_of(first.out())) == sorted(expected_first));
  CHECK(sorted(lines_of(second.out())) == sorted(expected_second));
  CHECK(one.process().is_running());
  CHECK(two.process().is_running());
}

TEST_CASE("cli: kill -9 of a launcher stops its mesh on hosts that stand, and nothing else") {
  StandingHost one, two;
  const std::string hosts = one.address() + "," + two.address();
  for (int round = 0; round < 3; ++round) {
    SleepingMesh victim(hosts, "victim", 4), other(hosts, "other", 2);
    victim.process.send_signal(SIGKILL);
    const auto took = time_until([&] { return victim.is_gone(); }, cleaned_up);
    CHECK(took.has_value());
    if (took)
      MESSAGE("launcher of attached hosts killed: its mesh was gone after " << took->count()
                                                                            << " ms");
    CHECK_FALSE(other.is_gone());
    CHECK(wait_until([&] { return ps(hosts).at("meshes").size() == 1; }, in_time));
    other.process.send_signal(SIGINT);
    CHECK(other.process.wait_exit(in_time) == ExitStatus::exited(130));
  }
  CHECK(run_cli({"run", "--hosts", hosts, "--", "true"}).status == ExitStatus::exited(0));
}

TEST_CASE(
    "cli: a broker that is killed is started again: the procs live on, ps finds them, and their "
    "launcher hears their end") {
  StandingHost host;
  const TempDir dir;
  Process launcher(
      cli({"run", "--hosts", host.address(), "--no-prefix", "-n", "2", "--", "sh", "-c",
           R"(echo up $$; until [ -e "$DIR/go" ]; do sleep 0.02; done; echo down)"}),
      {.environment = {{"DIR", dir.path().string()}}});
  REQUIRE(wait_until([&] { return lines_of(launcher.out()).size() == 2; }, in_time));
  std::set<pid_t> pids;
  for (const std::string& line : lines_of(launcher.out())) pids.insert(std::stoi(line.substr(3)));

  const Roles before = host.roles();
  ::kill(before.broker, SIGKILL);
  REQUIRE(wait_until(
      [&] { return is_gone(before.broker) && find_roles(before.warden).has_value(); }, in_time));
  const Roles after = *find_roles(before.warden);
  CHECK(after.broker != before.broker);
  CHECK(after.agent == before.agent);
  CHECK(after.keeper == before.keeper);
  CHECK(host.process().is_running());
  for (const pid_t pid : pids) CHECK_FALSE(is_gone(pid));

  json shown;
  const auto are_listed = [&] {
    const auto finished = run_cli({"ps", "--json", "--hosts", host.address()});
    if (finished.status != ExitStatus::exited(0)) return false;
    shown = parse_json(finished.out);
    return shown.at("meshes").size() == 1;
  };
  CHECK(wait_until(are_listed, in_time));
  std::set<pid_t> listed;
  for (const auto& rank : shown.at("meshes").at(0).at("ranks"))
    listed.insert(rank.at("pid").get<pid_t>());
  CHECK(listed == pids);

  dir.write("go", "");
  INFO(launcher.describe());
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(launcher.out().ends_with("down\ndown\n"));
  CHECK(host.process().err().find("broker was killed by SIGKILL: restarting it") !=
        std::string::npos);
}
