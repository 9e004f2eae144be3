// `meshbus doctor`: what is wrong on purpose is found, in one line each, and sound hosts are not
// spoken of.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/integration/cli/schema_check.h"
#include "tests/integration/needs.h"
#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// `meshbus doctor WORDS... --json`; its exit code is checked.
json examine(const Words& words, int exit_code, const ProcessOptions& options = {}) {
  Words all = {"doctor", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  const auto finished = run_cli(all, options);
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(exit_code));
  return parse_json(finished.out);
}

/// The findings with that code.
std::vector<json> findings_of(const json& report, const std::string& code) {
  std::vector<json> found;
  for (const auto& finding : report.at("findings")) {
    if (finding.at("code") == code) found.push_back(finding);
  }
  return found;
}

/// A host of this command line, ready.
class WrappedHost {
 public:
  explicit WrappedHost(Words before, const ProcessOptions& options = {})
      : process_(words(std::move(before)), options) {
    process_.wait_for_output("\n", in_time);
    address_ = parse_json(process_.out()).at("host");
  }
  ~WrappedHost() {
    process_.send_signal(SIGTERM);
    process_.wait_exit(in_time);
  }
  const std::string& address() const { return address_; }

 private:
  static Words words(Words before) {
    for (const auto& word : cli({"host"})) before.push_back(word);
    return before;
  }
  Process process_;
  std::string address_;
};

}  // namespace

TEST_CASE("doctor: sound hosts get one line and exit code 0") {
  StandingHost one, two;
  const auto finished = run_cli({"doctor", "--hosts", one.address() + "," + two.address()});
  INFO(finished.err);
  CHECK(finished.out == "2 hosts are sound\n");
  CHECK(finished.err.empty());
  CHECK(finished.status == ExitStatus::exited(0));
  // Nothing of the probes is left.
  CHECK(run_cli({"ps"}).out.find("doctor") == std::string::npos);

  const auto report = examine({"--hosts", one.address() + "," + two.address()}, 0);
  CHECK(report.at("sound") == true);
  REQUIRE(report.at("hosts").size() == 3);
  CHECK(report.at("hosts")[1].at("facts").at("storage").size() == 3);
  // From here to each of them, and between them.
  REQUIRE(report.at("links").size() == 3);
  CHECK(report.at("links")[2].at("bytes_per_s").get<double>() > 0);
  check_fits(report.dump(), "doctor");
}

TEST_CASE("doctor: without hosts it examines this machine, and the hosts on it") {
  CHECK(run_cli({"doctor", "--here"}).out == "this machine is sound\n");
  CHECK(run_cli({"doctor"}).out == "this machine is sound\n");
  StandingHost host;
  CHECK(run_cli({"doctor"}).out == "1 host is sound\n");
}

TEST_CASE("doctor: a low limit of open files is found on the host that has it") {
  StandingHost sound;
  WrappedHost low({"prlimit", "--nofile=256:256"});
  const auto report = examine({"--hosts", sound.address() + "," + low.address()}, 1);
  CHECK(report.at("findings").size() == 1);
  const auto found = findings_of(report, "descriptors");
  REQUIRE(found.size() == 1);
  CHECK(found[0].at("hosts") == json{low.address()});
  CHECK(found[0].at("severity") == "error");
  check_fits(report.dump(), "doctor");

  const auto here =
      run({"prlimit", "--nofile=256:256", bin("meshbus"), "doctor", "--here"}, in_time);
  CHECK(here.status == ExitStatus::exited(1));
  CHECK(here.out.starts_with("error: this machine: a process may open 256 files"));
  CHECK(lines_of(here.out).size() == 1);
}

TEST_CASE("doctor: a full disk is found" * doctest::test_suite(need::root)) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "full");
  const auto finished =
      run({"unshare", "-m", "sh", "-c",
           "mount -t tmpfs -o size=1m,mode=700 none $1 && export XDG_RUNTIME_DIR=$1 && "
           "{ head -c 2000000 /dev/zero > $1/fill; exec $2 doctor --here; } 2>/dev/null",
           "sh", dir / "full", bin("meshbus")},
          in_time);
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(1));
  REQUIRE(lines_of(finished.out).size() == 1);
  CHECK(finished.out.find("run directory (" + (dir / "full") + "/meshbus) is full: 0B of 1.00M") !=
        std::string::npos);
}

TEST_CASE("doctor: a run directory in which no host can start is found before one is started") {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() / "meshbus");
  std::filesystem::permissions(dir.path() / "meshbus", std::filesystem::perms::all);
  auto here =
      run_cli({"doctor", "--here"}, {.environment = {{"XDG_RUNTIME_DIR", dir.path().string()}}});
  CHECK(here.status == ExitStatus::exited(1));
  CHECK(here.out.find("others may enter it") != std::string::npos);
  const auto deep = dir / std::string(80, 'x');
  std::filesystem::create_directory(deep);
  here = run_cli({"doctor", "--here"}, {.environment = {{"XDG_RUNTIME_DIR", deep}}});
  CHECK(here.status == ExitStatus::exited(1));
  CHECK(here.out.find("a socket address takes 107") != std::string::npos);
  CHECK(lines_of(here.out).size() == 1);
}

TEST_CASE("doctor: a host that was killed as a whole is told of until the next one cleans up") {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms::owner_all);
  const ProcessOptions options{.environment = {{"XDG_RUNTIME_DIR", dir.path().string()}}};
  {
    Process host(cli({"host"}), options);
    host.wait_for_output("\n", in_time);
    const auto roles = find_roles(host.pid());
    REQUIRE(roles);
    for (const pid_t pid : roles->all()) ::kill(pid, SIGKILL);
    for (const pid_t pid : roles->all()) CHECK(wait_until([&] { return is_gone(pid); }, in_time));
  }
  const auto report = examine({"--here"}, 0, options);
  REQUIRE(findings_of(report, "leftovers").size() == 1);
  {
    StandingHost next({}, options);
  }
  CHECK(findings_of(examine({"--here"}, 0, options), "leftovers").empty());
}

TEST_CASE("doctor: a host that does not answer is named, after a bounded time") {
  StandingHost sound, frozen;
  for (const pid_t pid : frozen.roles().all()) ::kill(pid, SIGSTOP);
  const auto finished = run_cli({"doctor", "--timeout", "2s", "--json", "--hosts",
                                 sound.address() + "," + frozen.address() + ",tcp:127.0.0.1:1"});
  for (const pid_t pid : frozen.roles().all()) ::kill(pid, SIGCONT);
  const auto report = parse_json(finished.out);
  CHECK(finished.status == ExitStatus::exited(1));
  const auto silent = findings_of(report, "no_answer");
  REQUIRE(silent.size() == 2);
  CHECK(silent[0].at("hosts") == json{frozen.address()});
  CHECK(silent[1].at("hosts") == json{"tcp:127.0.0.1:1"});
  CHECK(report.at("findings").size() == 2);
  CHECK(finished.elapsed < 20s);
  check_fits(report.dump(), "doctor");
}

namespace {

/// Keys in a directory of their own.
class DoctorKeys {
 public:
  explicit DoctorKeys(const Words& who) { make(who); }
  void make(const Words& who) const {
    Words words = {"keygen", "--dir", dir_.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    const auto made = run_cli(words);
    INFO(made.err);
    REQUIRE(made.status == ExitStatus::exited(0));
  }
  /// From now on these keys are known here, too.
  void know(const DoctorKeys& other, const std::string& role) const {
    const auto folder = "authorised/" + role;
    std::filesystem::create_directories(dir_.path() / folder);
    std::filesystem::copy(
        other.dir_.path() / folder, dir_.path() / folder,
        std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing);
  }
  std::string folder_of(const std::string& role) const {
    return (dir_.path() / "authorised" / role).string();
  }
  ProcessOptions options() const {
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir_.path().string()}}};
  }

 private:
  TempDir dir_;
};

}  // namespace

TEST_CASE("doctor: a wrong key is called so, between us and a host and between two hosts") {
  const DoctorKeys first({"host", "127.0.0.1"}), second({"host", "127.0.0.2"});
  const DoctorKeys alice({"operator", "alice"}), mallory({"operator", "mallory"});
  for (const auto* host : {&first, &second}) {
    host->know(alice, "operator");
    alice.know(*host, "host");
    mallory.know(*host, "host");
  }
  StandingHost one({"--bind", "tcp:127.0.0.1:0"}, first.options());
  StandingHost two({"--bind", "tcp:127.0.0.2:0"}, second.options());
  const Words hosts = {"--hosts", one.address() + "," + two.address()};

  auto report = examine(hosts, 1, mallory.options());
  INFO(report.dump(1));
  REQUIRE(report.at("findings").size() == 2);
  REQUIRE(findings_of(report, "wrong_key").size() == 2);
  CHECK(findings_of(report, "wrong_key")[0].at("hosts") == json{one.address()});

  // The hosts let Alice in, and not each other.
  report = examine(hosts, 1, alice.options());
  INFO(report.dump(1));
  REQUIRE(report.at("findings").size() == 1);
  REQUIRE(findings_of(report, "not_linked").size() == 1);
  CHECK(report.at("findings")[0].at("what").get<std::string>().find("has no valid key of host") !=
        std::string::npos);

  first.know(second, "host");
  second.know(first, "host");
  report = examine(hosts, 0, alice.options());
  INFO(report.dump(1));
  CHECK(report.at("sound") == true);
}

TEST_CASE("doctor: a host that knows the old key of another is told apart from a cut network") {
  const DoctorKeys first({"host", "127.0.0.1"}), second({"host", "127.0.0.2"});
  const DoctorKeys alice({"operator", "alice"});
  first.know(second, "host");
  second.know(first, "host");
  second.make({"host", "127.0.0.2", "--rotate"});
  second.make({"host", "127.0.0.2", "--retire"});
  for (const auto* host : {&second, &first}) {  // Alice knows the new key
    host->know(alice, "operator");
    alice.know(*host, "host");
  }
  StandingHost one({"--bind", "tcp:127.0.0.1:0"}, first.options());
  StandingHost two({"--bind", "tcp:127.0.0.2:0"}, second.options());
  for (const auto& hosts :
       {one.address() + "," + two.address(), two.address() + "," + one.address()}) {
    const auto report = examine({"--hosts", hosts}, 1, alice.options());
    INFO(report.dump(1));
    REQUIRE(report.at("findings").size() == 1);
    CHECK(report.at("findings")[0].at("code") == "wrong_key");
  }

  // A folder that others may write to is named, with the repair.
  std::filesystem::permissions(second.folder_of("operator"), std::filesystem::perms::all);
  const auto report = examine({"--hosts", two.address()}, 1, alice.options());
  INFO(report.dump(1));
  REQUIRE(findings_of(report, "key").size() == 1);
  CHECK(findings_of(report, "key")[0].at("what").get<std::string>().find(
            "chmod go-w " + second.folder_of("operator")) != std::string::npos);
}

TEST_CASE("doctor: a host whose clock is wrong is found among others") {
  StandingHost one, two;
  WrappedHost late({"env", "LD_PRELOAD=" + bin("skewed_clock.so"), "SKEW_SECONDS=-300",
                    "ASAN_OPTIONS=verify_asan_link_order=0"});
  const auto report =
      examine({"--hosts", one.address() + "," + two.address() + "," + late.address()}, 1);
  INFO(report.dump(1));
  REQUIRE(report.at("findings").size() == 1);
  const auto& clock = report.at("findings")[0];
  CHECK(clock.at("code") == "clock");
  CHECK(clock.at("hosts") == json{late.address()});
  CHECK(clock.at("what").get<std::string>().starts_with("its clock is 300 s behind the others'"));
}

TEST_CASE("doctor: run --preflight starts nothing on hosts with an error, or leaves them out") {
  StandingHost sound;
  WrappedHost low({"prlimit", "--nofile=256:256"});
  const auto both = low.address() + "," + sound.address();
  auto finished = run_cli({"run", "--preflight", "--hosts", both, "--", "echo", "ran"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(125));
  CHECK(finished.out.empty());
  CHECK(finished.err.find("error: " + low.address() + ": a process may open 256 files") !=
        std::string::npos);
  CHECK(finished.err.find("preflight: 1 host failed; nothing was started") != std::string::npos);

  // One of the two is enough; a third one does not even answer.
  finished = run_cli({"run", "--preflight", "--use", "1", "--no-prefix", "--hosts",
                      both + ",tcp:127.0.0.1:1", "--", "echo", "ran"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "ran\n");
  CHECK(finished.err.find("host " + low.address() + " is left out") != std::string::npos);

  finished = run_cli({"run", "--preflight", "--no-prefix", "--", "echo", "ran"});
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(finished.out == "ran\n");
  CHECK(finished.err.empty());
}
