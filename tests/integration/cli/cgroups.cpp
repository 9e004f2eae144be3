// Limits and containment by cgroup v2 alone: what a host makes of the cgroup that it is started in.
// Takes root and a kernel whose controllers are in v2: see tests/soak/cgroup2.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"
#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr uid_t ordinary_user = 12345;

/// A cgroup with the controllers memory, pids and cpu, as systemd delegates them, for a user, with
/// a run directory. Gone at the end.
class Scope {
 public:
  explicit Scope(uid_t user = 0) : user_(user) {
    static int count = 0;
    // Beside the test program's own, which is a leaf: see tests/support/own_cgroups.h.
    const auto parent = fs::path(meshbus::os::view_cgroups().value().own).parent_path();
    path_ = parent / ("scope-" + std::to_string(++count));
    REQUIRE(::mkdir(path_.c_str(), 0755) == 0);
    for (const std::string file :
         {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"})
      REQUIRE(::chown((path_ + file).c_str(), user, user) == 0);
    std::string run = "/tmp/mbrun-XXXXXX";
    REQUIRE(::mkdtemp(run.data()) != nullptr);
    REQUIRE(::chown(run.c_str(), user, user) == 0);
    run_ = run;
  }
  ~Scope() {
    meshbus::os::clear_cgroup_tree(path_, 2s);
    std::error_code ignored;
    fs::remove_all(run_, ignored);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return read_file(path_ + "/" + name); }
  /// A command that is started in it, or below it, as its user.
  Words in(const Words& command, const std::string& below = {}) const {
    Words words{"sh", "-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"", path_ + below};
    if (user_ != 0) {
      const std::string id = std::to_string(user_);
      words.insert(words.end(), {"setpriv", "--reuid", id, "--regid", id, "--clear-groups"});
    }
    words.insert(words.end(), {"env", "XDG_RUNTIME_DIR=" + run_, "HOME=" + run_, "TMPDIR=/tmp"});
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  Finished run(const Words& words, const std::string& below = {}) const {
    return meshbus::test::run(in(cli(words), below), in_time);
  }
  Words below() const {
    Words found;
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.is_directory()) found.push_back(entry.path().filename());
    }
    return sorted(found);
  }
  /// Nothing of a host is left, and it can have processes again.
  bool is_as_before() const { return below().empty() && file("cgroup.subtree_control").empty(); }
  bool is_run_directory_empty() const {
    return !fs::exists(run_ + "/meshbus") || fs::is_empty(run_ + "/meshbus");
  }

 private:
  uid_t user_;
  std::string path_;
  std::string run_;
};

/// `meshbus host` in a scope, ready.
class HostIn {
 public:
  explicit HostIn(const Scope& scope, Words options = {}, const std::string& below = {})
      : process_(scope.in(cli(with(std::move(options))), below)) {
    process_.wait_for_output("\"keeper_pid\":", in_time);
    ready_ = parse_json(process_.out());
  }
  Process& process() { return process_; }
  const json& ready() const { return ready_; }
  std::string address() const { return ready_.at("host"); }
  std::string name() const {
    return "meshbus-" +
           fs::path(ready_.at("run_dir").get<std::string>()).filename().string().substr(5);
  }
  pid_t pid(const std::string& key) const { return ready_.at(key); }
  void stop() {
    process_.send_signal(SIGTERM);
    process_.wait_exit(in_time);
  }

 private:
  static Words with(Words options) {
    options.insert(options.begin(), "host");
    return options;
  }
  Process process_;
  json ready_;
};

Words limited(const std::string& host, const Words& command,
              const Words& limits = {"--memory", "64MiB", "--pids", "30", "--cpus", "0.5"}) {
  Words words{"run", "--no-prefix"};
  if (!host.empty()) words.insert(words.end(), {"--hosts", host});
  words.insert(words.end(), limits.begin(), limits.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

const Words show_limits{"sh", "-c",
                        "d=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); echo $d $(cat "
                        "$d/memory.max $d/pids.max $d/cpu.max)"};
const std::string all_limits = " 67108864 30 50000 100000\n";
const Words kHog{"perl", "-e", "my $x = 'x' x (200 << 20)"};
const std::string hogs_end =
    "killed by SIGKILL, out of memory: it has reached its limit of 64MiB of memory";

}  // namespace

TEST_CASE(
    "cgroups: a host alone in its cgroup steps aside, limits procs beside its roles, and leaves "
    "all as it was" *
    doctest::test_suite(need::cgroup2)) {
  for (const uid_t user : {uid_t{0}, ordinary_user}) {
    for (const std::string containment : {"auto", "sweep", "pidns"}) {
      if (user != 0 && containment == "pidns") continue;
      CAPTURE(user);
      CAPTURE(containment);
      const Scope scope(user);
      HostIn host(scope, {"--containment", containment});
      CHECK(host.ready().at("containment") == (containment == "auto"    ? "cgroup v2"
                                               : containment == "sweep" ? "sweep"
                                                                        : "pid namespace"));
      CHECK(host.ready().at("pids_limit") == 16384);
      CHECK(scope.file("cgroup.procs").empty());
      CHECK(scope.below() == sorted({host.name(), "meshbus-roles"}));
      CHECK(lines_of(scope.file("meshbus-roles/cgroup.procs")).size() == 4);
      CHECK(scope.file(host.name() + "/pids.max") == "16384\n");
      const auto shown = scope.run(limited(host.address(), show_limits), "/meshbus-roles");
      INFO(shown.err);
      CHECK(shown.out.starts_with(scope.path() + "/" + host.name() + "/"));
      CHECK(shown.out.ends_with(all_limits));
      const auto ended = scope.run(limited(host.address(), kHog), "/meshbus-roles");
      CHECK(ended.status == ExitStatus::exited(128 + SIGKILL));
      CHECK(ended.err.find(hogs_end) != std::string::npos);
      // One without limits is in there, too, and its end is nobody else's.
      const auto plain = scope.run(
          limited(host.address(), {"sh", "-c", "cat /proc/self/cgroup; kill -KILL $$"}, {}),
          "/meshbus-roles");
      CHECK(plain.out.find("/" + host.name() + "/") != std::string::npos);
      CHECK(plain.err.find("killed by SIGKILL, not sent by meshbus") != std::string::npos);
      CHECK(plain.err.find("memory") == std::string::npos);
      host.stop();
      CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
      CHECK(scope.is_run_directory_empty());
    }
  }
}

TEST_CASE("cgroups: `meshbus run` with limits steps aside with its host, and comes back" *
          doctest::test_suite(need::cgroup2)) {
  for (const uid_t user : {uid_t{0}, ordinary_user}) {
    CAPTURE(user);
    const Scope scope(user);
    const auto shown = scope.run(limited("", show_limits));
    INFO(shown.err);
    CHECK(shown.out.starts_with(scope.path() + "/meshbus-"));
    CHECK(shown.out.ends_with(all_limits));
    CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
    // Several hosts of one run share the place of their roles.
    auto words = limited("", {"true"});
    words.insert(words.begin() + 1, {"--hosts", "3", "-n", "6"});
    const auto three = scope.run(words);
    INFO(three.err);
    CHECK(three.status == ExitStatus::exited(0));
    CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
    CHECK(scope.run(limited("", kHog)).err.find(hogs_end) != std::string::npos);
    CHECK(wait_until([&] { return scope.is_as_before() && scope.is_run_directory_empty(); },
                     cleaned_up));
  }
}

TEST_CASE(
    "cgroups: somebody else's processes are left where they are: refused, with who it is and what "
    "to do; root goes elsewhere" *
    doctest::test_suite(need::cgroup2)) {
  const Scope scope(ordinary_user);
  Process stranger(scope.in({"sh", "-c", "echo there; exec sleep 300"}));
  stranger.wait_for_output("there", in_time);
  const std::string members = std::to_string(stranger.pid()) + "\n";
  for (const auto& [flag, value, words] :
       {std::array<std::string, 3>{"--memory", "64MiB", "a limit of 64MiB of memory"},
        {"--pids", "10", "a limit of 10 processes"},
        {"--cpus", "1.5", "a limit of 1.5 CPUs"}}) {
    const auto refused = scope.run(limited("", {"echo", "started"}, {flag, value}));
    CHECK(refused.status == ExitStatus::exited(2));
    CHECK(refused.out.empty());
    INFO(refused.err);
    CHECK(refused.err.find(words + " cannot be kept here: " + scope.path() +
                           " has other processes than this host's") != std::string::npos);
    CHECK(refused.err.find(std::to_string(stranger.pid()) + " sleep") != std::string::npos);
    CHECK(refused.err.find("systemd-run --user --scope -p Delegate=yes meshbus") !=
          std::string::npos);
  }
  {
    HostIn host(scope);
    CHECK(host.ready().at("containment") == "cgroup v2");
    CHECK(host.ready().at("pids_limit") == 0);
    CHECK(host.ready().at("pids_limit_reason").get<std::string>().find("has other processes") !=
          std::string::npos);
    host.stop();
  }
  CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
  CHECK(scope.file("cgroup.procs") == members);

  const Scope roots;
  Process other(roots.in({"sh", "-c", "echo there; exec sleep 300"}));
  other.wait_for_output("there", in_time);
  const auto elsewhere = roots.run(limited("", show_limits));
  INFO(elsewhere.err);
  CHECK(elsewhere.out.starts_with(fs::path(roots.path()).parent_path().string() + "/meshbus-"));
  CHECK(elsewhere.out.ends_with(all_limits));
  CHECK(roots.file("cgroup.procs") == std::to_string(other.pid()) + "\n");
  CHECK(roots.is_as_before());
}

TEST_CASE("cgroups: whoever is killed, nothing is left of them, nor of the leaf for the roles" *
          doctest::test_suite(need::cgroup2)) {
  for (const std::string containment : {"cgroup", "sweep"}) {
    for (const std::string victim : {"pid", "keeper_pid", "agent_pid", "broker_pid", "all"}) {
      CAPTURE(containment);
      CAPTURE(victim);
      const Scope scope(ordinary_user);
      const std::string sleep = own_sleep();
      {
        HostIn host(scope, {"--containment", containment});
        Process launcher(cli(limited(host.address(), {"sh", "-c", sleep + " & exec " + sleep})));
        REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
        if (victim == "all") {
          ::kill(host.pid("keeper_pid"), SIGSTOP);  // or it is quick enough to clean up
          for (const std::string role : {"pid", "agent_pid", "broker_pid", "keeper_pid"})
            ::kill(host.pid(role), SIGKILL);
        } else {
          ::kill(host.pid(victim), SIGKILL);
        }
        if (victim == "agent_pid" || victim == "broker_pid") {
          // Another one takes its place, and where the roles are.
          const auto roles = [&] { return lines_of(scope.file("meshbus-roles/cgroup.procs")); };
          CHECK(wait_until(
              [&] {
                const auto now = roles();
                return now.size() == 4 && std::find(now.begin(), now.end(),
                                                    std::to_string(host.pid(victim))) == now.end();
              },
              in_time));
          host.stop();
        }
        launcher.send_signal(SIGINT);
        launcher.wait_exit(in_time);
        host.process().wait_exit(in_time);
      }
      if (victim == "all") {
        CHECK_FALSE(scope.is_as_before());
        CHECK(scope.run(limited("", {"true"}), "/meshbus-roles").status == ExitStatus::exited(0));
      }
      CHECK(wait_until([&] { return sleepers(sleep).empty(); }, cleaned_up));
      CHECK(wait_until([&] { return scope.is_as_before() && scope.is_run_directory_empty(); },
                       cleaned_up));
      INFO("below: " << json(scope.below()).dump()
                     << ", handed on: " << scope.file("cgroup.subtree_control"));
      CHECK(scope.is_as_before());
    }
  }
}

TEST_CASE(
    "cgroups: two hosts of one cgroup share the leaf; the last one leaves the cgroup as it was" *
    doctest::test_suite(need::cgroup2)) {
  const Scope scope(ordinary_user);
  HostIn first(scope);
  HostIn second(scope, {}, "/meshbus-roles");
  CHECK(scope.below() == sorted({first.name(), second.name(), "meshbus-roles"}));
  for (HostIn* host : {&first, &second})
    CHECK(scope.run(limited(host->address(), show_limits), "/meshbus-roles")
              .out.ends_with(all_limits));
  first.stop();
  CHECK(wait_until([&] { return scope.below() == sorted({second.name(), "meshbus-roles"}); },
                   cleaned_up));
  CHECK(scope.run(limited(second.address(), kHog), "/meshbus-roles").err.find(hogs_end) !=
        std::string::npos);
  second.stop();
  CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));

  // A cgroup that somebody else has made there meanwhile keeps its limits.
  HostIn third(scope);
  const fs::path foreign = scope.path() + "/somebodys";
  REQUIRE(::mkdir(foreign.c_str(), 0755) == 0);
  REQUIRE(meshbus::os::write_file(foreign / "memory.max", "33554432") == 0);
  third.stop();
  CHECK(wait_until([&] { return scope.below() == sorted({"meshbus-roles", "somebodys"}); },
                   cleaned_up));
  CHECK(read_file(foreign / "memory.max") == "33554432\n");
  REQUIRE(::rmdir(foreign.c_str()) == 0);
  HostIn fourth(scope, {}, "/meshbus-roles");
  fourth.stop();
  CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
}

TEST_CASE(
    "cgroups: in a cgroup namespace, as the first process of a container, and beside others in "
    "one" *
    doctest::test_suite(need::cgroup2)) {
  const auto inside = [](const Scope& scope, const std::string& start) {
    Words words{"unshare",
                "-C",
                "-m",
                "sh",
                "-c",
                "umount -l /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 9; " +
                    start + "\"$@\"",
                "sh"};
    for (const auto& word : cli(limited("", show_limits))) words.push_back(word);
    return meshbus::test::run(scope.in(words), in_time);
  };
  const Scope scope;
  const auto first = inside(scope, "exec ");
  INFO(first.err);
  CHECK(first.out.starts_with("/sys/fs/cgroup/meshbus-"));
  CHECK(first.out.ends_with(all_limits));
  CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
  // Root in there has nowhere else to go.
  const auto beside = inside(scope, "");
  CHECK(beside.status == ExitStatus::exited(2));
  CHECK(beside.err.find("/sys/fs/cgroup has other processes than this host's") !=
        std::string::npos);
  CHECK(wait_until([&] { return scope.is_as_before(); }, cleaned_up));
}
