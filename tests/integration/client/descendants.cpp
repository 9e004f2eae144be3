// Descendants of procs that are no subreapers, open no session, or run as another user: which
// parents they have, and that none is left, in each containment (spec 4.7, 5.1).
#include <sys/stat.h>

#include <csignal>

#include "tests/integration/needs.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// One host in a containment.
struct OneHost {
  explicit OneHost(const std::string& containment)
      : context(must(Context::create())),
        hosts(must(HostMesh::process(
            context, extent("host=1"),
            {.program = bin("meshbus"), .containment = containment, .ready_limit = in_time}))) {
    const auto wardens = wardens_of(::getpid());
    REQUIRE(wardens.size() == 1);
    REQUIRE(wait_until([&] { return find_roles(wardens.front()).has_value(); }, in_time));
    roles = *find_roles(wardens.front());
  }
  /// One rank that runs a script.
  ProcMesh start(const std::string& name, ProcSpec spec) {
    return must(hosts.spawn_n(name, 1, std::move(spec), {.on_failure = [](const RankReport&) {}}));
  }

  Context context;
  HostMesh hosts;
  Roles roles;
};

pid_t pid_of(const ProcMesh& mesh) {
  return static_cast<pid_t>(mesh.known().ranks.at(0).pid);
}

/// The one process that runs this.
ProcessInfo sleeper(const std::string& sleep) {
  REQUIRE(wait_until([&] { return sleepers(sleep).size() == 1; }, in_time));
  return sleepers(sleep).front();
}

/// A proc that stays, with a daemon that runs `sleep`: its parent ends at once.
ProcSpec with_daemon(const std::string& sleep, bool no_subreaper) {
  auto spec = shell("(setsid " + sleep + " &); exec sleep 100");
  spec.settings.no_subreaper = no_subreaper;
  return spec;
}

bool has_parent(const std::string& sleep, pid_t parent) {
  const auto found = sleepers(sleep);
  return found.size() == 1 && found.front().parent == parent;
}

uid_t user_of(pid_t pid) {
  struct stat status{};
  return ::stat(("/proc/" + std::to_string(pid)).c_str(), &status) == 0 ? status.st_uid : 0;
}

constexpr std::uint32_t kNobody = 65534;

}  // namespace

TEST_CASE(
    "client: orphans of procs that are no subreapers go to the keeper, which ends them with any "
    "proc of the host") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    OneHost host(containment);
    const std::string kept = own_sleep(), orphan = own_sleep();
    auto reaper = host.start("reaper", with_daemon(kept, false));
    auto other = host.start("other", with_daemon(orphan, true));
    CHECK(wait_until([&] { return has_parent(kept, pid_of(reaper)); }, in_time));
    CHECK(wait_until([&] { return has_parent(orphan, host.roles.keeper); }, in_time));
    // Its own end takes it along, and nobody else's descendants.
    REQUIRE(::kill(pid_of(other), SIGKILL) == 0);
    CHECK(must(other.wait(in_time)).ranks.at(0).cause == Cause::killed_from_outside);
    CHECK(wait_until([&] { return sleepers(orphan).empty(); }, cleaned_up));
    CHECK(sleepers(kept).size() == 1);
    // So does the end of another proc.
    auto third = host.start("third", with_daemon(orphan, true));
    CHECK(wait_until([&] { return has_parent(orphan, host.roles.keeper); }, in_time));
    CHECK(must(reaper.stop({.grace = 0ms})).is_ended());
    CHECK(
        wait_until([&] { return sleepers(orphan).empty() && sleepers(kept).empty(); }, cleaned_up));
    CHECK(third.known().ranks.at(0).state == ProcState::ready);
    CHECK_FALSE(is_gone(pid_of(third)));
    must(host.hosts.shutdown(in_time));
  }
}

TEST_CASE("client: orphans that end on their own are reaped while their proc lives") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    OneHost host(containment);
    auto spec =
        shell("i=0; while [ $i -lt 200 ]; do (setsid true &); i=$((i+1)); done; exec sleep 100");
    spec.settings.no_subreaper = true;
    auto mesh = host.start("daemons", spec);
    CHECK(wait_until(
        [&] {
          return find_process(pid_of(mesh)) && find_process(pid_of(mesh))->command == "sleep 100";
        },
        in_time));
    CHECK(wait_until([&] { return children_of(host.roles.keeper).size() == 1; }, in_time));
    CHECK(children_of(host.roles.keeper).front().pid == pid_of(mesh));
    CHECK(must(mesh.stop({.grace = 0ms})).is_ended());
    must(host.hosts.shutdown(in_time));
  }
}

TEST_CASE("client: a stop by name ends when hundreds of descendants have ended, too") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    OneHost host(containment);
    const std::string sleep = own_sleep();
    auto mesh = host.start("crowd", shell("i=0; while [ $i -lt 300 ]; do setsid " + sleep +
                                          " & i=$((i+1)); done; wait"));
    REQUIRE(wait_until([&] { return sleepers(sleep).size() == 300; }, in_time));
    must(host.hosts.stop_mesh(mesh.ref().mesh().to_string(), {.reason = "a test", .grace = 0ms}));
    CHECK(sleepers(sleep).size() == 0);
    must(host.hosts.shutdown(in_time));
  }
}

TEST_CASE(
    "client: no orphan outlives its host, whether procs are subreapers or not, whoever ends it") {
  for (const std::string& containment : containments()) {
    for (const std::string victim : {"nobody", "keeper", "warden"}) {
      CAPTURE(containment);
      CAPTURE(victim);
      OneHost host(containment);
      const std::string sleep = own_sleep();
      auto reaper = host.start("reaper", with_daemon(sleep, false));
      auto other = host.start("other", with_daemon(sleep, true));
      REQUIRE(wait_until([&] { return sleepers(sleep).size() == 2; }, in_time));
      const std::vector<pid_t> procs{pid_of(reaper), pid_of(other)};
      if (victim == "nobody") {
        must(host.hosts.shutdown(in_time));
      } else {
        ::kill(victim == "keeper" ? host.roles.keeper : host.roles.warden, SIGKILL);
      }
      CHECK(wait_until(
          [&] { return sleepers(sleep).empty() && is_gone(procs[0]) && is_gone(procs[1]); },
          cleaned_up));
      (void)host.hosts.shutdown(in_time);  // where it is still there
    }
    if (containment == "pidns")
      StandingHost next;  // removes what the one whose warden was killed has left
  }
}

TEST_CASE("client: a proc opens a session of its own, or only a group") {
  for (const std::string& containment : containments()) {
    CAPTURE(containment);
    OneHost host(containment);
    const auto keeper = find_process(host.roles.keeper);
    REQUIRE(keeper);
    for (const bool same_session : {false, true}) {
      CAPTURE(same_session);
      const std::string sleep = own_sleep(), away = own_sleep();
      auto spec = shell(away + " & setsid " + away + " & exec " + sleep);
      spec.settings.same_session = same_session;
      auto mesh = host.start("session", spec);
      const auto proc = sleeper(sleep);
      CHECK(proc.pid == pid_of(mesh));
      CHECK(proc.group == proc.pid);
      CHECK(proc.session == (same_session ? keeper->session : proc.pid));
      REQUIRE(wait_until([&] { return sleepers(away).size() == 2; }, in_time));
      CHECK(must(mesh.stop({.reason = "over", .grace = 10s})).ranks.at(0).cause == Cause::stopped);
      CHECK(wait_until([&] { return sleepers(away).empty() && sleepers(sleep).empty(); },
                       cleaned_up));
    }
    must(host.hosts.shutdown(in_time));
  }
}

TEST_CASE("client: the last user and the last group, which the kernel takes for none, are refused" *
          doctest::test_suite(need::root)) {
  Context context = must(Context::create());
  auto hosts = must(HostMesh::process(context, extent("host=1"),
                                      {.program = bin("meshbus"), .ready_limit = in_time}));
  const auto refusal = [&](ProcSettings settings) {
    auto spec = shell("id -u");
    spec.settings = std::move(settings);
    const auto made = hosts.spawn_n("ids", 1, std::move(spec));
    return made ? std::string("it was started") : made.error().detail();
  };
  CHECK(refusal({.uid = UINT32_MAX}).find("there is no user 4294967295") != std::string::npos);
  CHECK(refusal({.uid = kNobody, .gid = UINT32_MAX}).find("there is no group 4294967295") !=
        std::string::npos);
}

TEST_CASE(
    "client: procs of another user and what they leave in sessions of their own end with them, and "
    "with their host" *
    doctest::test_suite(need::root)) {
  for (const std::string& containment : containments()) {
    for (const std::string victim : {"nobody", "the proc", "keeper", "warden"}) {
      CAPTURE(containment);
      CAPTURE(victim);
      OneHost host(containment);
      const std::string sleep = own_sleep();
      // A child, one in a session of its own, a daemon, and the proc itself.
      auto spec = shell("trap '' HUP; " + sleep + " & setsid " + sleep + " & (setsid " + sleep +
                        " &); exec " + sleep);
      spec.settings.uid = kNobody;
      spec.settings.gid = kNobody;
      spec.directory = "/";  // not everybody may enter ours
      auto mesh = host.start("theirs", spec);
      REQUIRE(wait_until([&] { return sleepers(sleep).size() == 4; }, in_time));
      for (const auto& one : sleepers(sleep)) CHECK(user_of(one.pid) == kNobody);
      if (victim == "nobody") {
        CHECK(must(mesh.stop({.reason = "over", .grace = 10s})).ranks.at(0).cause ==
              Cause::stopped);
      } else {
        const pid_t pid = victim == "keeper"   ? host.roles.keeper
                          : victim == "warden" ? host.roles.warden
                                               : pid_of(mesh);
        REQUIRE(::kill(pid, SIGKILL) == 0);
      }
      const auto took = time_until([&] { return sleepers(sleep).empty(); }, cleaned_up);
      INFO(to_string(sleepers(sleep)));
      CHECK(took.has_value());
      (void)host.hosts.shutdown(in_time);  // where it is still there
    }
    if (containment == "pidns")
      StandingHost next;  // removes what the one whose warden was killed has left
  }
}
