// `meshbus run --mesh`: programs that link the library.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <set>

#include "tests/integration/needs.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// "total: 8 files, 36 lines" of what count_lines has printed.
std::string total_in(const std::string& out) {
  for (const std::string& line : lines_of(out)) {
    if (const auto at = line.find("total: "); at != std::string::npos)
      return line.substr(at, line.find(" from ") - at);
  }
  return {};
}

}  // namespace

TEST_CASE("cli: a job of mesh procs over two hosts gets the same result as one process alone") {
  const TempDir dir;
  std::size_t lines = 0;
  for (std::size_t i = 0; i < 9; ++i) {
    std::string text;
    for (std::size_t j = 0; j <= i * 100; ++j, ++lines) text += "// a line\n";
    dir.write("header" + std::to_string(i) + ".h", text);
  }
  const auto alone = run({bin("count_lines"), "--alone", dir.path()}, in_time);
  CHECK(total_in(alone.out) == "total: 9 files, " + std::to_string(lines) + " lines");
  const auto mesh = run_cli({"run", "--mesh", "--hosts", "2", "--per-host", "gpus=2", "--",
                             bin("count_lines"), dir.path()});
  INFO(mesh.out << mesh.err);
  CHECK(mesh.status == ExitStatus::exited(0));
  CHECK(total_in(mesh.out) == total_in(alone.out));
  CHECK(mesh.out.find("[count_lines/0 host=0,gpus=0] total: ") != std::string::npos);
  CHECK(lines_of(mesh.out).size() == 5);
  // The same through a wrapper, which must hand on the bootstrap (spec 4.3).
  const auto wrapped = run_cli({"run", "--mesh", "-n", "3", "--", "bash", "-c",
                                bin("count_lines") + " " + dir.path().string() + "; exit $?"});
  INFO(wrapped.out << wrapped.err);
  CHECK(wrapped.status == ExitStatus::exited(0));
  CHECK(total_in(wrapped.out) == total_in(alone.out));
}

TEST_CASE("cli: a program that never says hello is ended at the ready limit, and told so") {
  const TempDir dir;
  const std::string sleep = own_sleep();
  const auto finished = run_cli({"run", "--mesh", "-n", "2", "--set", "spawn.ready=1s", "--json",
                                 dir / "report", "--", "sh", "-c", "exec " + sleep});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(125));
  CHECK(last_line(finished.err).find("not ready") != std::string::npos);
  CHECK(finished.elapsed >= 1s);
  CHECK(finished.elapsed < 15s * slowness);
  CHECK(sleepers(sleep).empty());
  CHECK(parse_json(read_file(dir / "report")).at("ranks")[0].at("status") == "failed");
}

TEST_CASE("cli: a mesh proc that ends before it said hello is reported with its code") {
  const auto finished = run_cli({"run", "--mesh", "-n", "2", "--", "sh", "-c", "exit 7"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(7));
  CHECK(last_line(finished.err).find("exit 7") != std::string::npos);
}

TEST_CASE("cli: a mesh proc that is killed is reported, and the others stop in order") {
  const TempDir dir;
  StandingHost host;
  Process launcher(cli({"run", "--mesh", "--hosts", host.address(), "-n", "3", "--json",
                        dir / "report", "--", bin("echo_proc")}));
  json ranks;
  const auto are_ready = [&] {
    const auto finished = run_cli({"ps", "--json", "--hosts", host.address()});
    const json meshes = parse_json(finished.out).at("meshes");
    if (meshes.size() != 1) return false;
    ranks = meshes[0].at("ranks");
    return ranks.size() == 3 && std::all_of(ranks.begin(), ranks.end(), [](const json& rank) {
             return rank.at("status") == "ready";
           });
  };
  REQUIRE(wait_until(are_ready, in_time));
  ::kill(ranks[1].at("pid").get<pid_t>(), SIGKILL);
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(137));
  INFO(launcher.err());
  CHECK(last_line(launcher.err()).find("first failure: rank 1 ") != std::string::npos);
  CHECK(last_line(launcher.err()).find("killed by SIGKILL") != std::string::npos);
  // They were asked by message first, and said so.
  CHECK(launcher.err().find("rank 0 stops: ") != std::string::npos);
  CHECK(launcher.err().find("rank 2 stops: ") != std::string::npos);
  const json report = parse_json(read_file(dir / "report"));
  INFO(report.dump(2));
  CHECK(report.at("first_failure") == 1);
  CHECK(report.at("ranks")[1].at("signal") == SIGKILL);
  for (const std::size_t rank : {0U, 2U}) CHECK(report.at("ranks")[rank].at("status") == "stopped");
}

TEST_CASE("cli: mesh procs outlive their broker and register with the next one") {
  StandingHost host;
  Process launcher(
      cli({"run", "--mesh", "--hosts", host.address(), "-n", "2", "--", bin("echo_proc")}));
  const auto pids_when_ready = [&] {
    std::set<pid_t> pids;
    const auto look = [&] {
      pids.clear();
      const auto finished = run_cli({"ps", "--json", "--hosts", host.address()});
      if (finished.status != ExitStatus::exited(0)) return false;
      const json listing = parse_json(finished.out);
      for (const auto& mesh : listing.at("meshes")) {
        for (const auto& rank : mesh.at("ranks")) {
          if (rank.at("status") == "ready") pids.insert(rank.at("pid").get<pid_t>());
        }
      }
      return pids.size() == 2;
    };
    CHECK(wait_until(look, in_time));
    return pids;
  };
  const auto before = pids_when_ready();
  const Roles roles = host.roles();
  ::kill(roles.broker, SIGKILL);
  REQUIRE(wait_until([&] { return is_gone(roles.broker) && find_roles(roles.warden).has_value(); },
                     in_time));
  CHECK(pids_when_ready() == before);
  // The order to stop travels by message, so it says whether they are reachable again.
  const auto stopped = run_cli({"stop", "echo_proc", "--hosts", host.address()});
  INFO(stopped.err << launcher.describe());
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(143));
  CHECK(launcher.err().find("rank 0 stops: ") != std::string::npos);
  CHECK(launcher.err().find("rank 1 stops: ") != std::string::npos);
}

TEST_CASE("cli: mesh procs of another user talk, and outlive their broker" *
          doctest::test_suite(need::root)) {
  StandingHost host;
  // The tree of the sources and the folders of the tests are closed to others.
  const fs::path program = "/tmp/meshbus-echo-" + std::to_string(::getpid());
  const auto remove = [](const fs::path* path) { fs::remove(*path); };
  const std::unique_ptr<const fs::path, decltype(remove)> removal(&program, remove);
  fs::copy_file(bin("echo_proc"), program, fs::copy_options::overwrite_existing);
  Process launcher(cli({"run", "--mesh", "--name", "work", "--uid", "nobody", "--no-new-privs",
                        "--hosts", host.address(), "-n", "2", "--", program.string()}));
  const auto talk = [&] {
    // Rank 0 asks rank 1, through the broker both ways.
    return run_cli({"call", "work[0]", "3", "1 hello", "--raw", "--hosts", host.address()}).out;
  };
  const bool is_up = wait_until([&] { return talk() == "hello"; }, in_time);
  INFO(launcher.describe());
  REQUIRE(is_up);
  const auto listing = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
  std::set<pid_t> pids;
  for (const auto& rank : listing.at("meshes")[0].at("ranks")) {
    const auto pid = rank.at("pid").get<pid_t>();
    pids.insert(pid);
    const std::string process = "/proc/" + std::to_string(pid);
    CHECK(read_file(process + "/status").find("Uid:\t65534\t65534\t65534\t65534") !=
          std::string::npos);
  }
  CHECK(pids.size() == 2);
  const Roles roles = host.roles();
  ::kill(roles.broker, SIGKILL);
  REQUIRE(wait_until([&] { return is_gone(roles.broker) && find_roles(roles.warden).has_value(); },
                     in_time));
  CHECK(wait_until([&] { return talk() == "hello"; }, in_time));
  // The folder of the socket is open to those that were given it, and what is above is not.
  fs::path folder = host.address().substr(std::string("unix:").size());
  folder = folder.parent_path();
  CHECK((fs::status(folder).permissions() & fs::perms::all) == fs::perms::owner_all);
  CHECK((fs::status(folder / "procs").permissions() & fs::perms::others_all) ==
        fs::perms::others_exec);
  const auto stopped = run_cli({"stop", "work", "--hosts", host.address()});
  INFO(stopped.err);
  CHECK(stopped.status == ExitStatus::exited(0));
  CHECK(launcher.wait_exit(in_time) == ExitStatus::exited(143));
}
