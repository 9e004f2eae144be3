// Limits of memory, processes and CPU time by a cgroup for each proc (spec 5.6), and what `meshbus
// ps --wide` tells of their use.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "tests/integration/needs.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// `meshbus run` with limits; the report of its rank 0.
struct Limited {
  Finished finished;
  json rank;
};
Limited run_limited(Words options, const Words& command) {
  const TempDir dir;
  options.insert(options.begin(), "run");
  options.insert(options.end(), {"--json", dir / "report", "--"});
  options.insert(options.end(), command.begin(), command.end());
  Limited limited{run_cli(options), {}};
  INFO(limited.finished.err);
  limited.rank = parse_json(read_file(dir / "report")).at("ranks").at(0);
  return limited;
}

/// A program that takes that much memory, and writes all over it, says "there", and sleeps.
Words memory_holder(std::size_t mib) {
  return {"perl", "-e",
          "$| = 1; alarm 60; my $x = ''; vec($x, (" + std::to_string(mib) +
              " << 20) - 1, 8) = 1; print \"there\\n\"; sleep 60"};
}

double spent(const json& usage) {
  return usage.at("user_s").get<double>() + usage.at("system_s").get<double>();
}

}  // namespace

TEST_CASE(
    "limits: who passes its limit of memory is killed, and the exit report says so, with the "
    "limit" *
    doctest::test_suite(need::memory_limit)) {
  for (const std::string containment : {"auto", "sweep"}) {
    CAPTURE(containment);
    const auto hog =
        run_limited({"--memory", "64MiB", "--containment", containment}, memory_holder(200));
    CHECK(hog.finished.status == ExitStatus::exited(128 + SIGKILL));
    CHECK(hog.finished.out.empty());
    CHECK(hog.rank.at("cause") == "out_of_memory");
    CHECK(hog.rank.at("reason") ==
          "killed by SIGKILL, out of memory: it has reached its limit of 64MiB of memory");
  }
  // Each for itself: two ranks that need 40 MiB each have room.
  const auto fine = run_cli({"run", "-n", "2", "--memory", "64m", "--no-prefix", "--", "perl", "-e",
                             "my $x = ''; vec($x, (40 << 20) - 1, 8) = 1; print 'fits '"});
  INFO(fine.err);
  CHECK(fine.status == ExitStatus::exited(0));
  CHECK(fine.out.find("fits") != std::string::npos);
  // A descendant counts, too; the proc itself lives on and says how it ended.
  const auto child = run_limited({"--memory", "64MiB"},
                                 {"sh", "-c", "perl -e 'my $x = \"x\" x (200 << 20)'; exit 7"});
  const std::string reason = child.rank.at("reason");
  if (child.rank.at("signal").is_null()) {
    CHECK(child.finished.status == ExitStatus::exited(7));
    CHECK(reason ==
          "exit 7; the kernel has killed 1 of its processes for want of memory: it has reached its "
          "limit of 64MiB of memory");
  } else {
    CHECK(child.rank.at("cause") == "out_of_memory");  // cgroup v2 ends all of it together
  }
  // Killed by somebody, with a limit: that is no want of memory.
  const auto murdered = run_limited({"--memory", "64MiB"}, {"sh", "-c", "kill -KILL $$"});
  CHECK(murdered.rank.at("cause") == "killed_from_outside");
}

TEST_CASE("limits: an end by its own limit of memory is not put down to a later one without" *
          doctest::test_suite(need::memory_limit)) {
  StandingHost host;
  const TempDir dir;
  run_cli({"run", "--hosts", host.address(), "--memory", "32MiB", "--", "perl", "-e",
           "my $x = 'x' x (100 << 20)"});
  run_cli({"run", "--hosts", host.address(), "--json", dir / "report", "--", "sh", "-c",
           "kill -KILL $$"});
  CHECK(parse_json(read_file(dir / "report")).at("ranks").at(0).at("cause") ==
        "killed_from_outside");
}

TEST_CASE("limits: the smallest limit of memory costs a large command line, and nobody else" *
          doctest::test_suite(need::memory_limit)) {
  StandingHost host;
  const auto before = host.roles();
  // The arguments are copied while the new process still shares the keeper's memory: that must not
  // be what is killed.
  const std::string large(120'000, 'x');
  Words words{"run",          "--hosts",  host.address(), "-n", "4",
              "--keep-going", "--memory", "1MiB",         "--", "/bin/echo"};
  for (int i = 0; i < 12; ++i) words.push_back(large);
  const auto finished = run_cli(words);
  CHECK(finished.status != ExitStatus::exited(0));
  INFO(finished.err);
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
  CHECK(host.roles().keeper == before.keeper);
  CHECK(!is_gone(before.keeper));
}

TEST_CASE("limits: --pids bounds who forks and forks" * doctest::test_suite(need::pids_limit)) {
  const std::string sleep = own_sleep();
  Process launcher(
      cli({"run", "--pids", "20", "--", "sh", "-c",
           "ulimit -c 0; for i in $(seq 100); do " + sleep + " & done; echo all; wait"}));
  CHECK(wait_until(
      [&] { return launcher.err().find("ork") != std::string::npos || !launcher.is_running(); },
      in_time));
  CHECK(sleepers(sleep).size() < 20);
  launcher.wait_exit(in_time);
  CHECK(launcher.out().find("all") == std::string::npos);
  CHECK(sleepers(sleep).empty());
}

TEST_CASE("limits: --cpus gives a proc and its descendants so much CPU time and no more" *
          doctest::test_suite(need::cpu_limit)) {
  // Two that would keep two CPUs busy for two seconds, by the clock.
  const std::string burn = "my $end = time + 3; 1 while time < $end";
  const auto limited =
      run_limited({"--cpus", "0.2"},
                  {"perl", "-e", "my $child = fork; " + burn + "; waitpid $child, 0 if $child"});
  CHECK(limited.finished.status == ExitStatus::exited(0));
  const double used = spent(limited.rank.at("usage"));
  MESSAGE("with --cpus 0.2, two busy loops for 2 to 3 s have used " << used << " s");
  CHECK(used > 0.1);
  CHECK(used < 1.2);  // 0.2 x 3 s, its start, and what the kernel gives in advance on each CPU
}

TEST_CASE("limits: what cannot be had is refused by name, before anything is started") {
  struct {
    Words options;
    std::string text;
  } const cases[] = {{{"--memory", "moon"}, "takes bytes like 512MiB"},
                     {{"--memory", "-1"}, "--memory"},
                     {{"--memory", "0"}, "takes bytes like 512MiB"},
                     {{"--memory", "4096"}, "SpawnProcs.command.settings.memory_limit"},
                     {{"--memory", "99999999T"}, "takes bytes like 512MiB"},
                     {{"--cpus", "0"}, "from 0.01"},
                     {{"--cpus", "nan"}, "from 0.01"},
                     {{"--cpus", "1e3"}, "from 0.01"},
                     {{"--cpus", "1.2345"}, "from 0.01"},
                     {{"--pids", "0"}, "--pids"},
                     {{"--pids", "4194305"}, "--pids"}};
  for (const auto& one : cases) {
    Words words{"run"};
    words.insert(words.end(), one.options.begin(), one.options.end());
    words.insert(words.end(), {"--", "echo", "started"});
    CAPTURE(one.options.back());
    const auto finished = run_cli(words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(2));
    CHECK(finished.err.find(one.text) != std::string::npos);
    CHECK(finished.out.empty());
  }
}

TEST_CASE("limits: where no cgroup can be made, that is said: which limit, where, why, what to do" *
          doctest::test_suite(need::read_only_cgroups)) {
  // In a world of its own, with the hierarchies read-only, as in an ordinary container; and without
  // them.
  struct {
    std::string prepare;
    std::string text;
  } const worlds[] = {
      {make_cgroups_read_only, "Read-only file system"},
      {"umount -l $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts) || exit 9", "is mounted"}};
  for (const auto& world : worlds) {
    CAPTURE(world.prepare);
    for (const auto& [flag, value, words] :
         {std::array<std::string, 3>{"--memory", "64MiB", "a limit of 64MiB of memory"},
          {"--pids", "10", "a limit of 10 processes"},
          {"--cpus", "1.5", "a limit of 1.5 CPUs"}}) {
      const auto finished = run({"unshare", "-m", "sh", "-c", world.prepare + "; exec \"$@\"", "sh",
                                 bin("meshbus"), "run", flag, value, "--", "echo", "started"},
                                in_time);
      INFO(finished.err);
      CHECK(finished.status == ExitStatus::exited(2));
      CHECK(finished.out.empty());
      CHECK(finished.err.find(words + " cannot be kept here") != std::string::npos);
      CHECK(finished.err.find(world.text) != std::string::npos);
      CHECK(finished.err.find("do without this limit") != std::string::npos);
      CHECK(finished.err.find("cannot remove") == std::string::npos);
    }
  }
}

TEST_CASE("limits: nothing is left of them, whoever dies" * doctest::test_suite(need::all_limits)) {
  const Words limits{"--memory", "64MiB", "--pids", "64", "--cpus", "1"};
  for (const std::string victim : {"none", "keeper", "warden", "agent", "all"}) {
    CAPTURE(victim);
    const std::string sleep = own_sleep();
    Words words{"run", "-n", "3"};
    words.insert(words.end(), limits.begin(), limits.end());
    words.insert(words.end(), {"--", "sh", "-c", sleep + " & exec " + sleep});
    Process launcher(cli(words));
    REQUIRE(wait_until([&] { return sleepers(sleep).size() == 6; }, in_time));
    const auto wardens = wardens_of(launcher.pid());
    REQUIRE(wardens.size() == 1);
    const auto roles = find_roles(wardens.front());
    REQUIRE(roles);
    const auto directories = host_directories();
    REQUIRE(directories.size() == 1);
    // One for each controller at least: v1 has them apart.
    CHECK(!group_directories_of(directories).empty());
    if (victim == "all") {
      ::kill(roles->keeper, SIGSTOP);  // or it is quick enough to clean up
      for (const pid_t pid : {roles->warden, roles->agent, roles->broker, roles->keeper})
        ::kill(pid, SIGKILL);
    } else if (victim != "none") {
      ::kill(victim == "keeper"   ? roles->keeper
             : victim == "warden" ? roles->warden
                                  : roles->agent,
             SIGKILL);
    }
    if (victim == "agent") {
      // Another one takes over, and the limits are still there.
      REQUIRE(wait_until(
          [&] {
            return find_roles(roles->warden) && find_roles(roles->warden)->agent != roles->agent;
          },
          in_time));
      CHECK(sleepers(sleep).size() == 6);
      CHECK(!group_directories_of(directories).empty());
    }
    if (victim == "none" || victim == "agent") launcher.send_signal(SIGINT);
    launcher.wait_exit(in_time);
    if (victim == "all") StandingHost next;  // cleans up
    CHECK(wait_until([&] { return sleepers(sleep).empty(); }, in_time));
    CHECK(wait_until([&] { return group_directories_of(directories).empty(); }, in_time));
  }
}

TEST_CASE("limits: the cgroups of a proc go when it is gone, not when its host does" *
          doctest::test_suite(need::all_limits)) {
  StandingHost host;
  const auto directories = host_directories();
  const auto before = group_directories_of(directories);
  for (int i = 0; i < 3; ++i) {
    const auto finished = run_cli({"run", "--hosts", host.address(), "-n", "8", "--memory", "64MiB",
                                   "--pids", "10", "--", "sh", "-c", "sleep 30 & exit 0"});
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(0));
  }
  CHECK(wait_until([&] { return group_directories_of(directories) == before; }, in_time));
}

TEST_CASE(
    "usage: ps --wide tells CPU time, memory, threads and descriptors, as a table and as JSON") {
  StandingHost host;
  const std::string busy = "alarm 60; print qq(up\\n); 1 while 1";
  Process loop(cli(
      {"run", "--hosts", host.address(), "--name", "busy", "--", "perl", "-e", "$| = 1; " + busy}));
  Words hold{"run", "--hosts", host.address(), "--name", "big", "--"};
  for (const auto& word : memory_holder(64)) hold.push_back(word);
  Process holder(cli(hold));
  REQUIRE(wait_until(
      [&] {
        return holder.out().find("there") != std::string::npos &&
               loop.out().find("up") != std::string::npos;
      },
      in_time));
  const auto usage_of = [&](const std::string& base) {
    const json listing =
        parse_json(run_cli({"ps", "--wide", "--json", "--hosts", host.address()}).out);
    for (const json& mesh : listing.at("meshes")) {
      if (mesh.at("mesh").get<std::string>().starts_with(base))
        return mesh.at("ranks").at(0).at("usage");
    }
    return json();
  };
  json used;
  CHECK(
      wait_until([&] { return !(used = usage_of("busy")).is_null() && spent(used) > 1; }, in_time));
  CHECK(used.at("load") > 0.05);
  const json big = usage_of("big");
  REQUIRE(!big.is_null());
  CHECK(big.at("rss") >= 64 << 20);
  CHECK(big.at("rss") < 96 << 20);
  CHECK(big.at("peak_rss") >= big.at("rss"));
  CHECK(big.at("threads") == 1);
  CHECK(big.at("descriptors") >= 3);
  CHECK(big.at("descriptors") < 12);
  CHECK(spent(big) < 1);
  const auto table = run_cli({"ps", "--wide", "--hosts", host.address()});
  CHECK(table.status == ExitStatus::exited(0));
  CHECK(table.out.find("LOAD") != std::string::npos);
  const auto lines = lines_of(table.out);
  const auto row = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find(" ready") != std::string::npos;
  });
  REQUIRE(row != lines.end());
  INFO(table.out);
  CHECK(table.out.find("M") != std::string::npos);
  CHECK(run_cli({"ps", "--hosts", host.address()}).out.find("LOAD") == std::string::npos);
  loop.send_signal(SIGINT);
  holder.send_signal(SIGINT);
  loop.wait_exit(in_time);
  holder.wait_exit(in_time);
}

TEST_CASE(
    "usage: hosts look by themselves, also when a new agent has taken over, and the exit report "
    "has what was seen last") {
  const TempDir dir;
  StandingHost host({"--set", "usage.period=50ms"});
  Words hold{"run", "--hosts", host.address(), "--json", dir / "report", "--"};
  for (const auto& word : memory_holder(32)) hold.push_back(word);
  Process holder(cli(hold));
  REQUIRE(wait_until([&] { return holder.out().find("there") != std::string::npos; }, in_time));
  const auto before = host.roles();
  ::kill(before.agent, SIGKILL);
  REQUIRE(wait_until(
      [&] { return find_roles(before.warden) && find_roles(before.warden)->agent != before.agent; },
      in_time));
  const auto usage = [&] {
    const json listing = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
    return listing.at("meshes").empty() ? json()
                                        : listing.at("meshes").at(0).at("ranks").at(0).at("usage");
  };
  REQUIRE(wait_until([&] { return !usage().is_null(); }, in_time));
  const std::string first = usage().at("sampled");
  CHECK(wait_until([&] { return usage().at("sampled") > first; }, in_time));
  holder.send_signal(SIGINT);
  holder.wait_exit(in_time);
  const json end = parse_json(read_file(dir / "report")).at("ranks").at(0).at("usage");
  REQUIRE(!end.is_null());
  CHECK(end.at("threads") == 1);
  CHECK(end.at("descriptors") >= 3);
  CHECK(end.at("peak_rss") >= 32 << 20);
  CHECK(end.at("rss") >= 32 << 20);
  // A proc that ended before the first look has only what the kernel counted.
  const auto quick = run_limited({}, {"true"});
  CHECK(quick.rank.at("usage").at("peak_rss") > 0);
  CHECK(quick.rank.at("usage").at("threads").is_null());
}
