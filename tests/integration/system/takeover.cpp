// Spec 5.5: the agent may be killed without its procs noticing. A new one goes on with the same
// processes, and neither an exit code nor a byte of output is lost.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>

#include "common/base/unique_fd.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// How often the long tests are repeated. Read before main(), which removes all our variables from
/// the environment.
const std::uint64_t rounds = number_from_environment("MESHBUS_TEST_TAKEOVERS", 4);

Roles roles_of(const Process& launcher) {
  std::optional<Roles> roles;
  REQUIRE(wait_until(
      [&] {
        const auto wardens = wardens_of(launcher.pid());
        if (!wardens.empty()) roles = find_roles(wardens.front());
        return roles.has_value();
      },
      in_time));
  return *roles;
}

/// Kills the agent; waits until there is another one.
void replace_agent(const Roles& roles) {
  const auto before = find_roles(roles.warden);
  REQUIRE(before);
  REQUIRE(::kill(before->agent, SIGKILL) == 0);
  CHECK(wait_until(
      [&] {
        const auto now = find_roles(roles.warden);
        return now && now->agent != before->agent;
      },
      in_time));
}

void touch(const fs::path& file) {
  std::ofstream(file) << "go\n";
}

constexpr int procs = 60;
constexpr int lines_per_half = 400;

/// Writes the first half, waits until there is a writer of the pipe DIR/go, writes the second half
/// and a last line without an end; the exit code is the rank.
const char* const writer = R"(
  i=0
  while [ $i -lt 400 ]; do echo "$RANK $$ $i"; i=$((i+1)); done
  : <"$DIR/go"
  while [ $i -lt 800 ]; do echo "$RANK $$ $i"; i=$((i+1)); done
  echo "err $RANK" >&2
  printf 'last %d' $RANK
  exit $RANK)";

/// Every line of every rank once and in order, and the codes and pids in the report.
void check_all_there(const std::string& out, const json& report) {
  std::map<int, std::string> by_rank;
  std::map<int, long> pids;
  std::size_t at = 0;
  while (at < out.size()) {
    const auto end = std::min(out.find('\n', at), out.size());
    std::string line = out.substr(at, end - at);
    at = end + 1;
    // "[procs/3 proc=3] 3 1234 17"
    const auto prefix = line.find("] ");
    REQUIRE(prefix != std::string::npos);
    const int rank = std::stoi(line.substr(line.rfind('=', prefix) + 1));
    line.erase(0, prefix + 2);
    if (!line.starts_with("last ")) {
      int number = 0;
      long pid = 0;
      int count = 0;
      REQUIRE(std::sscanf(line.c_str(), "%d %ld %d", &number, &pid, &count) == 3);
      CHECK(number == rank);
      if (!pids.contains(rank)) pids[rank] = pid;
      CHECK(pids[rank] == pid);
      line = std::to_string(count);
    }
    by_rank[rank] += line + "\n";
  }
  std::string expected;
  for (int i = 0; i < 2 * lines_per_half; ++i) expected += std::to_string(i) + "\n";
  REQUIRE(report.at("ranks").size() == procs);
  int complete = 0;
  int codes = 0;
  int same_pids = 0;
  for (int rank = 0; rank < procs; ++rank) {
    const auto& told = report.at("ranks").at(static_cast<std::size_t>(rank));
    if (by_rank[rank] == expected + "last " + std::to_string(rank) + "\n") {
      ++complete;
    } else {
      MESSAGE("rank " << rank << ": " << by_rank[rank].size() << " bytes of " << expected.size() + 8
                      << "; " << told.dump());
    }
    codes += told.at("exit_code") == rank ? 1 : 0;
    same_pids += told.at("pid") == pids[rank] ? 1 : 0;
    CHECK(told.at("stderr_tail") == json({"err " + std::to_string(rank)}));
  }
  CHECK(complete == procs);
  CHECK(codes == procs);
  CHECK(same_pids == procs);
}

class Run {
 public:
  explicit Run(Words options = {}) {
    REQUIRE(::mkfifo((dir_ / "go").c_str(), 0600) == 0);
    options.insert(options.begin(), {"run", "-n", std::to_string(procs), "--keep-going", "--stdin",
                                     "none", "--json", dir_ / "report"});
    options.insert(options.end(), {"--", "sh", "-c", writer});
    launcher_ = std::make_unique<Process>(
        cli(options), ProcessOptions{.environment = {{"DIR", dir_.path().string()}}});
  }
  Process& launcher() { return *launcher_; }
  void go() { go_ = meshbus::UniqueFd(::open((dir_ / "go").c_str(), O_RDWR | O_CLOEXEC)); }
  void check() {
    const auto status = launcher_->wait_exit(in_time);
    INFO(launcher_->err());
    CHECK(status.code.value_or(0) != 125);
    check_all_there(launcher_->out(), parse_json(read_file(dir_ / "report")));
  }

 private:
  TempDir dir_;
  meshbus::UniqueFd go_;
  std::unique_ptr<Process> launcher_;
};

}  // namespace

TEST_CASE(
    "takeover: the agent is killed again and again below 60 writing procs: same pids, all exit "
    "codes, all output") {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    Run run;
    const auto roles = roles_of(run.launcher());
    run.launcher().wait_for_output("] ", in_time);
    replace_agent(roles);  // in the middle of the first half, or of the spawns
    run.launcher().wait_for_output(" 399\n", in_time);
    run.go();
    replace_agent(roles);  // in the middle of the second half
    run.check();
  }
  CHECK(host_directories().empty());
}

TEST_CASE("takeover: procs that end while there is no agent lose neither code nor output") {
  Run run;
  const auto roles = roles_of(run.launcher());
  for (int rank = 0; rank < procs; ++rank)
    run.launcher().wait_for_output("] " + std::to_string(rank) + " ", in_time);
  run.launcher().wait_for_output(" 399\n", in_time);
  const auto writers = [&] {
    std::size_t count = 0;
    for (const auto& one : children_of(roles.keeper)) count += is_gone(one.pid) ? 0U : 1U;
    return count;
  };
  // The warden sleeps: nobody starts another agent.
  REQUIRE(::kill(roles.warden, SIGSTOP) == 0);
  REQUIRE(::kill(roles.agent, SIGKILL) == 0);
  run.go();
  const bool ended = wait_until([&] { return writers() == 0; }, in_time);
  REQUIRE(::kill(roles.warden, SIGCONT) == 0);
  CHECK(ended);
  run.check();
}

TEST_CASE("takeover: what was asked for and not yet started is started once") {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const TempDir dir;
    Process launcher(
        cli({"run", "-n", "200", "--keep-going", "--stdin", "none", "--json", dir / "report", "--",
             "sh", "-c", R"(echo one >>"$DIR/$RANK"; exit $((RANK % 50)))"}),
        {.environment = {{"DIR", dir.path().string()}}});
    const auto roles = roles_of(launcher);
    REQUIRE(wait_until([&] { return fs::exists(dir / "3") || !launcher.is_running(); }, in_time));
    replace_agent(roles);
    launcher.wait_exit(in_time);
    INFO(launcher.err());
    const json report = parse_json(read_file(dir / "report"));
    REQUIRE(report.at("ranks").size() == 200);
    int right = 0;
    int once = 0;
    for (int rank = 0; rank < 200; ++rank) {
      right +=
          report.at("ranks")[static_cast<std::size_t>(rank)].at("exit_code") == rank % 50 ? 1 : 0;
      once += read_file(dir / std::to_string(rank)) == "one\n" ? 1 : 0;
    }
    CHECK(right == 200);
    CHECK(once == 200);
  }
}

TEST_CASE(
    "takeover: the new agent knows its meshes: it lists them, stops them, and nothing is left") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", host.address(), "-n", "3", "--grace", "200ms", "--", "sh",
                        "-c", "echo up; exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 3; }, in_time));
  // But for what the procs used when somebody last looked.
  const auto listing = [&] {
    json meshes = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out).at("meshes");
    for (auto& mesh : meshes) {
      for (auto& rank : mesh.at("ranks")) rank.erase("usage");
    }
    return meshes;
  };
  const json before = listing();
  ::kill(host.roles().agent, SIGKILL);
  REQUIRE(wait_until(
      [&] { return host.process().err().find("restarting it (1 of 5") != std::string::npos; },
      in_time));
  const json after = listing();
  CHECK(after == before);
  CHECK(sleepers(sleep).size() == 3);
  // A proc that is killed now is told with its signal.
  launcher.send_signal(SIGINT);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(sleepers(sleep).empty());
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
}

TEST_CASE("takeover: the launcher that goes while there is no agent is missed by the next one") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher(
      cli({"run", "--hosts", host.address(), "-n", "3", "--", "sh", "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 3; }, in_time));
  REQUIRE(::kill(host.process().pid(), SIGSTOP) == 0);
  REQUIRE(::kill(host.roles().agent, SIGKILL) == 0);
  launcher.send_signal(SIGKILL);
  launcher.wait_exit(in_time);
  CHECK(sleepers(sleep).size() == 3);
  REQUIRE(::kill(host.process().pid(), SIGCONT) == 0);
  CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
}

TEST_CASE(
    "takeover: an agent that dies six times within a minute ends the host, and nothing is left") {
  StandingHost host;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", host.address(), "--set", "delivery.limit=2s", "--", "sh",
                        "-c", "exec " + sleep}));
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  for (int i = 0; i < 5; ++i) replace_agent(host.roles());
  const auto last = find_roles(host.roles().warden);
  REQUIRE(last);
  ::kill(last->agent, SIGKILL);
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(70));
  CHECK(host.process().err().find("restarted 5 times within 60 s") != std::string::npos);
  CHECK(sleepers(sleep).empty());
  launcher.wait_exit(in_time);
}

TEST_CASE(
    "takeover: log files go on at the right byte, and a reader of logs that follows misses "
    "nothing") {
  const TempDir dir;
  StandingHost host({"--set", "logs.directory=" + (dir / "logs"), "--set", "logs.size=64KiB",
                     "--set", "logs.files=1000"});
  // Three parts, each of which waits for its start.
  const std::string script = R"(
    echo begin
    i=0
    for part in 1 2 3; do
      until [ -e "$DIR/go$part" ]; do sleep 0.02; done
      end=$((i+4000))
      while [ $i -lt $end ]; do echo "$RANK line $i"; i=$((i+1)); done
    done
    printf 'the end')";
  Process launcher(cli({"run", "--hosts", host.address(), "-n", "4", "--name", "kept",
                        "--no-prefix", "--", "sh", "-c", script}),
                   {.environment = {{"DIR", dir.path().string()}}});
  launcher.wait_for_output("begin", in_time);
  Process reader(cli(
      {"logs", "-f", "--raw", "--tail", "all", "--rank", "2", "--hosts", host.address(), "kept"}));
  reader.wait_for_output("begin", in_time);
  for (const int part : {1, 2, 3}) {
    touch(dir.path() / ("go" + std::to_string(part)));
    launcher.wait_for_output("3 line " + std::to_string(4000 * part - 3000), in_time);
    replace_agent(host.roles());
  }
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(reader.wait_exit(in_time) == ExitStatus::exited(0));
  const auto mesh = mesh_folder_in(dir / "logs");
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    std::string expected = "begin\n";
    for (int i = 0; i < 12'000; ++i)
      expected += std::to_string(rank) + " line " + std::to_string(i) + "\n";
    expected += "the end";
    const std::string path = mesh / (std::to_string(rank) + ".out");
    std::map<std::string, std::string> files;
    for (const auto& file : fs::directory_iterator(mesh)) {
      if (file.path().string().starts_with(path))
        files[file.path() == path ? "~" : file.path().string()] = read_file(file.path());
    }
    std::string joined;
    for (const auto& [name, content] : files) {
      if (name != "~")
        CHECK(std::stoull(name.substr(path.size() + 1)) ==
              joined.size());  // the offset that the name tells
      joined += content;
    }
    CHECK(files.size() > 2);
    CHECK((joined == expected));
    if (rank == 2) CHECK((reader.out() == expected));
  }
  // A new agent reads the logs of ended procs from the files.
  const auto later =
      run_cli({"logs", "--raw", "--tail", "all", "--rank", "3", "--hosts", host.address(), "kept"});
  INFO(later.err);
  CHECK(later.status == ExitStatus::exited(0));
  CHECK(later.out.ends_with("3 line 11999\nthe end"));
  CHECK(later.out.starts_with("begin\n"));
}
