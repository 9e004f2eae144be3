// `meshbus run --hosts ssh:...`: hosts on other machines, by a real sshd on this one.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/ssh_server.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// A server where `meshbus` is in PATH, and hosts have their run directories where
/// host_directories() looks.
struct SshSite {
  SshServer server{
      {{"PATH", bin("meshbus").substr(0, bin("meshbus").rfind('/')) + ":/usr/bin:/bin"},
       {"XDG_RUNTIME_DIR", (environment_root() / "run").string()},
       {"TMPDIR", (environment_root() / "tmp").string()},
       {"ASAN_OPTIONS",
        std::getenv("ASAN_OPTIONS") == nullptr ? "detect_leaks=0" : std::getenv("ASAN_OPTIONS")}}};
  ProcessOptions options() const { return {.environment = {{"PATH", server.path()}}}; }
  Finished run(Words words) const {
    words.insert(words.begin(), "run");
    return run_cli(words, options());
  }
  /// Nothing of any host is left, and nobody is logged in.
  bool is_empty() const { return host_directories().empty() && server.sessions().empty(); }
};

/// Whatever can be read of all processes by anybody: arguments, and by their user: environments.
std::string all_arguments_and_environments() {
  std::string all;
  for (const auto& process : all_processes()) {
    const auto folder = "/proc/" + std::to_string(process.pid);
    all += read_file(folder + "/cmdline") + read_file(folder + "/environ");
  }
  return all;
}

std::string secret_of_key(const std::string& key_file) {
  std::istringstream lines(key_file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("secret-key ")) return line.substr(11);
  }
  return {};
}

}  // namespace

TEST_CASE("cli: run starts hosts over ssh, runs there, and leaves nothing" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  const auto finished = site.run({"--hosts", "ssh:a,b", "--per-host", "gpus=2", "--name", "far",
                                  "--", "sh", "-c", "echo $RANK $MESHBUS_ADDR; echo word >&2"});
  INFO(finished.out << finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  const auto lines = sorted(lines_of(finished.out));
  REQUIRE(lines.size() == 4);
  std::set<std::string> hosts;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto prefix = "[far/" + std::to_string(rank) + " host=" + std::to_string(rank / 2) +
                        ",gpus=" + std::to_string(rank % 2) + "] " + std::to_string(rank) + " ";
    CHECK(lines[rank].starts_with(prefix + "tcp:127.0.0.1:"));
    hosts.insert(
        lines[rank].substr(prefix.size(), lines[rank].find(',', prefix.size()) - prefix.size()));
  }
  CHECK(hosts.size() == 2);
  CHECK(finished.err.find("word") != std::string::npos);
  CHECK(wait_until([&] { return site.is_empty(); }, in_time));

  // Exit codes, a port, and a failure that says on which host it was.
  const auto three = site.run({"--hosts", "ssh:a,b,127.0.0.1:" + std::to_string(site.server.port()),
                               "--", "sh", "-c", "exit $RANK"});
  INFO(three.err);
  CHECK((three.status == ExitStatus::exited(1) || three.status == ExitStatus::exited(2)));
  CHECK(three.err.find("on tcp:127.0.0.1:") != std::string::npos);
  CHECK(wait_until([&] { return site.is_empty(); }, in_time));
}

TEST_CASE("cli: run --use over ssh goes on with the spare when a host is killed" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  const std::string sleep = own_sleep();
  Process launcher(
      cli({"run", "--hosts", "ssh:a,b,c", "--use", "2", "-n", "4", "--no-prefix", "--", "sh", "-c",
           "if [ $MESHBUS_JOB_ATTEMPT = 0 ]; then " + sleep +
               "; fi; echo rank $RANK of $WORLD_SIZE went on"}),
      site.options());
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 4; }, in_time));
  // The keeper of a host that has ranks is the parent of a rank's sh.
  const pid_t rank = sleepers(sleep).front().parent;
  pid_t keeper = 0;
  for (const auto& process : all_processes()) {
    if (process.pid == rank) keeper = process.parent;
  }
  REQUIRE(keeper > 1);
  ::kill(keeper, SIGKILL);
  const auto status = launcher.wait_exit(in_time);
  INFO(launcher.describe());
  CHECK(status == ExitStatus::exited(0));
  const auto lines = sorted(lines_of(launcher.out()));
  REQUIRE(lines.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(lines[i] == "rank " + std::to_string(i) + " of 4 went on");
  CHECK(launcher.err().find("attempt 2 of the job on 2 hosts, 0 hosts to spare") !=
        std::string::npos);
  CHECK(wait_until([&] { return site.is_empty(); }, in_time));
}

TEST_CASE("cli: no secret of hosts started over ssh is in an argument or an environment" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", "ssh:a,b", "--", "sh", "-c", "exec " + sleep}),
                   site.options());
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
  std::size_t found = 0;
  const auto all = all_arguments_and_environments();
  CHECK(all.find(sleep) != std::string::npos);
  for (const auto& directory : host_directories()) {
    const auto key = directory / "keys" / "own.key";
    const auto secret = secret_of_key(read_file(key));
    REQUIRE(secret.size() == 40);
    CHECK(std::filesystem::status(key).permissions() ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    CHECK(all.find(secret) == std::string::npos);
    ++found;
  }
  CHECK(found == 2);
  launcher.send_signal(SIGINT);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(sleepers(sleep).empty());
  CHECK(wait_until([&] { return site.is_empty(); }, in_time));
}

TEST_CASE("cli: kill -9 of a launcher ends the hosts that it started over ssh" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  const std::string sleep = own_sleep();
  Process launcher(cli({"run", "--hosts", "ssh:a,b", "-n", "4", "--", "sh", "-c",
                        "trap '' TERM HUP; " + sleep + "; true"}),
                   site.options());
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 4; }, in_time));
  launcher.send_signal(SIGKILL);
  const auto took = time_until([&] { return sleepers(sleep).empty() && site.is_empty(); }, in_time);
  REQUIRE(took.has_value());
  MESSAGE("launcher of hosts over ssh killed: all was gone after " << took->count() << " ms");
  CHECK(*took < cleaned_up + 3s);  // two seconds for a host, and ssh and sshd on both sides
}

TEST_CASE("cli: when ssh fails it is said on which machine, why, and what to do" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  const auto refused = [&](const std::string& hosts, const std::string& machine,
                           const std::string& why, const std::string& what,
                           const Words& more = {}) {
    Words words = {"--hosts", hosts};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", "true"});
    const auto finished = site.run(words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(125));
    CHECK(finished.err.find("host " + machine + ": ") != std::string::npos);
    CHECK(finished.err.find(why) != std::string::npos);
    CHECK(finished.err.find(what) != std::string::npos);
    CHECK(wait_until([&] { return site.is_empty(); }, in_time));
  };
  refused("ssh:a,nowhere", "nowhere", "Could not resolve hostname", "check the name");
  refused("ssh:stranger,a", "stranger", "Permission denied (publickey)",
          "must work without a password");
  refused("ssh:unknown", "unknown", "Host key verification failed", "known_hosts");
  refused("ssh:a,deaf", "deaf", "Connection refused", "no sshd listens there");
  refused("ssh:a", "a", "/no/where/meshbus: ", "meshbus is not there",
          {"--remote-program", "/no/where/meshbus"});
}

TEST_CASE("cli: what cannot be a machine for ssh is refused before anything is started" *
          doctest::skip(!SshServer::why_not().empty())) {
  SshSite site;
  for (const std::string hosts : {"ssh:-oProxyCommand=true", "ssh:a:", "ssh:a:port", "ssh:::1",
                                  "ssh:@a", "ssh:a,tcp:b:1", "ssh:"}) {
    const auto finished = site.run({"--hosts", hosts, "--", "true"});
    INFO(hosts << ": " << finished.err);
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(finished.err.find("--hosts: ") != std::string::npos);
  }
  // Looking takes running hosts.
  const auto ps = run_cli({"ps", "--hosts", "ssh:a"});
  CHECK(ps.status == ExitStatus::exited(2));
}
