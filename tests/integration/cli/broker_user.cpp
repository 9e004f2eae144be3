// `meshbus host --broker-user`: the broker of root's host goes on as another user (decision 50).
#include <doctest/doctest.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/needs.h"
#include "tests/support/open_dir.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

constexpr char kUser[] = "nobody";

/// Keys of a host and of an operator, alice. Root's, and that user can read the host's.
struct Keys {
  Keys() {
    make({"host", "127.0.0.1"});
    make({"operator", "alice"});
    const auto secret = dir / "127.0.0.1.key";
    REQUIRE(::chown(secret.c_str(), 0, ::getpwnam(kUser)->pw_gid) == 0);
    REQUIRE(::chmod(secret.c_str(), 0640) == 0);
  }
  void make(const Words& who) const {
    Words words = {"keygen", "--dir", dir.path().string()};
    words.insert(words.end(), who.begin(), who.end());
    REQUIRE(run_cli(words).status == ExitStatus::exited(0));
  }
  ProcessOptions here() const {
    return {.environment = {{"MESHBUS_KEYS_DIRECTORY", dir.path().string()}}};
  }
  ProcessOptions as(const std::string& name) const {
    auto options = here();
    options.environment.emplace_back("MESHBUS_KEYS_OWN", dir / (name + ".key"));
    return options;
  }
  OpenDir dir;
};

/// The words behind `name` in /proc/PID/status.
std::string status_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return {};
}

void check_has_no_rights(pid_t broker) {
  const auto user = std::to_string(::getpwnam(kUser)->pw_uid);
  CHECK(status_of(broker, "Uid") == user + "\t" + user + "\t" + user + "\t" + user);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    CHECK(status_of(broker, set) == "0000000000000000");
  // The threads of ZeroMQ have none either.
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(broker) + "/task"))
    CHECK(status_of(std::stoi(task.path().filename()), "NoNewPrivs") == "1");
  // What belongs to it belongs to root: it cannot be dumped or traced by that user's processes.
  struct stat status{};
  REQUIRE(::stat(("/proc/" + std::to_string(broker) + "/mem").c_str(), &status) == 0);
  CHECK(status.st_uid == 0);
}

}  // namespace

TEST_CASE("broker user: it goes on without root, and serves all that it served before" *
          doctest::test_suite(need::root)) {
  const Keys keys;
  StandingHost host({"--bind", "tcp:127.0.0.1:0", "--broker-user", kUser}, keys.here());
  const auto broker = host.roles().broker;
  check_has_no_rights(broker);
  for (const pid_t role : {host.roles().keeper, host.roles().agent})
    CHECK(status_of(role, "Uid").starts_with("0\t"));

  // Over tcp with keys, over the unix socket, and for procs of other users.
  const auto run = [&](Words words, const ProcessOptions& options) {
    words.insert(words.begin(), "run");
    const auto done = run_cli(words, options);
    INFO(done.err);
    CHECK(done.status == ExitStatus::exited(0));
    return done.out;
  };
  const auto directory = host_directories().front();
  CHECK(run({"--no-prefix", "--hosts", host.address(), "--", "id", "-u"}, keys.as("alice")) ==
        "0\n");
  const OpenDir programs;
  fs::copy_file(bin("meshbus_test_proc"), programs / "proc");
  run({"--hosts", host.address(), "-n", "2", "--mesh", "--uid", "4711", "--", programs / "proc",
       "twice"},
      keys.as("alice"));
  const auto seen = run_cli({"ps", "--all"});
  INFO(seen.out << seen.err);
  CHECK(seen.status == ExitStatus::exited(0));
  CHECK(seen.out.find(host.address()) != std::string::npos);

  // Its audit trail is in a folder of its own, where it can be set aside.
  const auto trail = directory / "audit";
  struct stat status{};
  REQUIRE(::stat(trail.c_str(), &status) == 0);
  CHECK(status.st_uid == ::getpwnam(kUser)->pw_uid);
  CHECK((status.st_mode & 0777) == 0700);
  const auto audited = [&] {
    const auto done = run_cli({"audit", "--hosts", host.address(), "--json"}, keys.as("alice"));
    INFO(done.err);
    REQUIRE(done.status == ExitStatus::exited(0));
    return parse_json(done.out).at("entries").dump();
  };
  CHECK(audited().find("id -u") != std::string::npos);
  std::ofstream(trail / "audit.jsonl", std::ios::app)
      << "{\"filler\":\"" << std::string(200'000, 'x') << "\"}\n"
      << "{\"filler\":\"" << std::string(200'000, 'x') << "\"}\n";
  REQUIRE(fs::file_size(trail / "audit.jsonl") > 400'000);

  // Keys that come and go.
  keys.make({"operator", "bob"});
  CHECK(run({"--no-prefix", "--hosts", host.address(), "--", "echo", "bob"}, keys.as("bob")) ==
        "bob\n");
  REQUIRE(fs::remove(keys.dir / "authorised/operator/bob.pub"));
  CHECK(wait_until(
      [&] {
        return run_cli({"ping", "--hosts", host.address(), "--timeout", "2s"}, keys.as("bob"))
                   .status != ExitStatus::exited(0);
      },
      in_time));

  // Another one that takes its place.
  REQUIRE(::kill(broker, SIGKILL) == 0);
  std::optional<Roles> roles;
  REQUIRE(wait_until(
      [&] {
        roles = find_roles(host.roles().warden);
        return roles && roles->broker != 0 && roles->broker != broker &&
               status_of(roles->broker, "Uid").starts_with("65534");
      },
      in_time));
  CHECK(run({"--no-prefix", "--hosts", host.address(), "--", "echo", "again"}, keys.as("alice")) ==
        "again\n");
  check_has_no_rights(roles->broker);
  CHECK(audited().find("id -u") != std::string::npos);
  CHECK(run_cli({"shutdown", "--hosts", host.address()}, keys.as("alice")).status ==
        ExitStatus::exited(0));
  CHECK(host.process().wait_exit(in_time) == ExitStatus::exited(0));
  CHECK_FALSE(fs::exists(directory));
}

TEST_CASE("broker user: its audit trail is set aside and read back without root" *
          doctest::test_suite(need::root)) {
  const TempDir logs;
  StandingHost host({"--broker-user", kUser, "--set", "audit.size=1MiB", "--set",
                     "logs.directory=" + logs.path().string()});
  fs::path folder;
  for (const auto& entry : fs::directory_iterator(logs.path())) {
    if (entry.path().filename().string().starts_with("audit-")) folder = entry.path();
  }
  REQUIRE(fs::is_directory(folder));
  const auto run = [&](const std::string& word) {
    REQUIRE(run_cli({"run", "--hosts", host.address(), "--", "true", word}).status ==
            ExitStatus::exited(0));
  };
  run("first");
  {
    std::ofstream file(folder / "audit.jsonl", std::ios::app);
    for (int i = 0; i < 600; ++i) file << "{\"filler\":\"" << std::string(1000, 'x') << "\"}\n";
  }
  run("second");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    files += entry.is_regular_file() ? 1U : 0U;
  CHECK(files == 2);
  CHECK(fs::file_size(folder / "audit.jsonl") < 100'000);
  const auto done = run_cli({"audit", "--hosts", host.address(), "--json"});
  const auto entries = parse_json(done.out).at("entries").dump();
  CHECK(entries.find("true first") != std::string::npos);
  CHECK(entries.find("true second") != std::string::npos);
}

TEST_CASE("broker user: it ends with its warden, as before" * doctest::test_suite(need::root)) {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    StandingHost host({"--broker-user", kUser, "--containment", containment});
    const auto roles = host.roles();
    REQUIRE(::kill(roles.warden, SIGKILL) == 0);
    REQUIRE(::kill(roles.keeper, SIGKILL) == 0);
    host.process().wait_exit(in_time);
    CHECK(wait_until(
        [&] {
          return ::kill(roles.broker, 0) != 0 || status_of(roles.broker, "State").starts_with("Z");
        },
        in_time));
    // What a warden and a keeper that are killed at once leave is removed by the next host.
    const StandingHost next;
  }
}

TEST_CASE("broker user: between two hosts of root on one machine the one with root connects" *
          doctest::test_suite(need::root)) {
  const StandingHost plain;
  const StandingHost limited({"--broker-user", kUser});
  const auto run = [&](const std::string& hosts) {
    return run_cli({"run", "--no-prefix", "-n", "2", "--hosts", hosts, "--", "echo", "here"});
  };
  const auto good = run(plain.address() + "," + limited.address());
  INFO(good.err);
  CHECK(good.status == ExitStatus::exited(0));
  CHECK(good.out == "here\nhere\n");
  // The link is there now. Another host that has root no more has to say why it makes none.
  const StandingHost other({"--broker-user", kUser});
  const auto bad = run(other.address() + "," + limited.address());
  INFO(bad.err);
  CHECK(bad.status == ExitStatus::exited(125));
  CHECK(bad.err.find("does not run as root any more (meshbus host --broker-user)") !=
        std::string::npos);
}

TEST_CASE("broker user: what cannot be is said before anything starts" *
          doctest::test_suite(need::root)) {
  const auto host = [](const Words& more, const ProcessOptions& options = {}) {
    Words words = {"host"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cli(words, options);
  };
  const auto unknown = host({"--broker-user", "no-such-user"});
  CHECK(unknown.status == ExitStatus::exited(2));
  CHECK(unknown.err.find("this machine knows no user 'no-such-user'") != std::string::npos);
  const auto root = host({"--broker-user", "root"});
  CHECK(root.status == ExitStatus::exited(2));
  CHECK(root.err.find("--broker-user root is root") != std::string::npos);
  // A key that only root can read would be found missing with the next look at it.
  const Keys keys;
  REQUIRE(::chmod((keys.dir / "127.0.0.1.key").c_str(), 0600) == 0);
  const auto closed = host({"--bind", "tcp:127.0.0.1:0", "--broker-user", kUser}, keys.here());
  INFO(closed.err);
  CHECK_FALSE(closed.status == ExitStatus::exited(0));
  CHECK(closed.err.find("as user nobody: ") != std::string::npos);
  CHECK(closed.err.find("127.0.0.1.key: open: Permission denied") != std::string::npos);
}
