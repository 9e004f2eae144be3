// `meshbus watch`: what stands, and each change as it comes.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// A mesh of two ranks that stand, each of which says something at first.
struct StandingMesh {
  StandingHost host;
  Process run{cli({"run", "--hosts", host.address(), "-n", "2", "--name", "work", "--no-prefix",
                   "--", "sh", "-c", "echo says-$RANK >&2; exec sleep 120"})};
  std::string name;
  pid_t pid_of_second = 0;
  StandingMesh() {
    const auto is_up = [this] {
      const json listing = parse_json(run_cli({"ps", "--json", "--hosts", host.address()}).out);
      if (listing.at("meshes").empty()) return false;
      const auto& mesh = listing.at("meshes")[0];
      if (mesh.at("ranks").size() != 2) return false;
      name = mesh.at("mesh");
      if (mesh.at("ranks")[0].at("status") != "ready" ||
          mesh.at("ranks")[1].at("status") != "ready")
        return false;
      pid_of_second = mesh.at("ranks")[1].at("pid").get<pid_t>();
      return true;
    };
    INFO(run.describe());
    REQUIRE(wait_until(is_up, in_time));
    REQUIRE(wait_until([this] { return run.err().find("says-1") != std::string::npos; }, in_time));
  }
  Words watch(const Words& more) const {
    Words words = {"watch", "--hosts", host.address()};
    words.insert(words.end(), more.begin(), more.end());
    return cli(words);
  }
};

bool has(const Process& process, const std::string& text) {
  return process.out().find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("cli: watch shows what stands, then what changes, and ends with its mesh") {
  StandingMesh mesh;
  Process text(mesh.watch({"work"}));
  Process lines(mesh.watch({"--json"}));
  Process second(mesh.watch({"work[1]"}));
  const auto rank = [&](int number) { return mesh.name + " rank " + std::to_string(number); };
  REQUIRE(wait_until(
      [&] {
        return has(text, rank(0)) && has(text, rank(1)) && has(lines, "\"rank\":1") &&
               has(second, rank(1));
      },
      in_time));
  CHECK(has(text, ": ready, pid " + std::to_string(mesh.pid_of_second)));

  REQUIRE(::kill(mesh.pid_of_second, SIGKILL) == 0);
  CHECK(text.wait_exit(in_time) == ExitStatus::exited(1));
  INFO(text.out());
  CHECK(has(text, rank(1) + " (host=0/1,proc=1/2) on " + mesh.host.address() + ": killed, "));
  CHECK(has(text, "  | says-1\n"));
  CHECK(has(text, mesh.name + " has ended: Failed\n"));
  // A gang stop follows, and is said to be that.
  CHECK(has(text,
            rank(0) + " (host=0/1,proc=0/2) on " + mesh.host.address() + ": stopped by SIGTERM ("));

  // These ranks alone, until the end of the mesh.
  CHECK(second.wait_exit(in_time) == ExitStatus::exited(1));
  CHECK_FALSE(has(second, rank(0)));
  CHECK(has(second, rank(1) + " (host=0/1,proc=1/2) on " + mesh.host.address() + ": killed, "));
  CHECK(has(second, mesh.name + " has ended: Failed\n"));

  // Without a mesh it goes on.
  REQUIRE(wait_until([&] { return has(lines, "\"event\":\"ended\""); }, in_time));
  CHECK(lines.is_running());
  std::size_t ends = 0;
  for (const auto& line : lines_of(lines.out())) {
    const json event = parse_json(line);
    if (event.at("event") != "state" || event.at("rank") != 1 || event.at("state") == "ready")
      continue;
    ++ends;
    CHECK(event.at("signal") == SIGKILL);
    CHECK(event.at("stderr_tail") == json({"says-1"}));
  }
  CHECK(ends == 1);
  lines.send_signal(SIGINT);
  CHECK(lines.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK(mesh.run.wait_exit(in_time) == ExitStatus::exited(137));
}

TEST_CASE("cli: watch says that there is no such mesh, and that a host goes") {
  StandingHost host;
  const auto none = run_cli({"watch", "nothing", "--hosts", host.address()});
  CHECK(none.status == ExitStatus::exited(1));
  CHECK(none.err.find("no mesh 'nothing' on these hosts") != std::string::npos);
  StandingMesh mesh;
  Process watch(cli({"watch", "--hosts", host.address() + "," + mesh.host.address()}));
  REQUIRE(wait_until([&] { return has(watch, mesh.name + " rank 1"); }, in_time));
  REQUIRE(run_cli({"shutdown", "--hosts", mesh.host.address()}).status == ExitStatus::exited(0));
  CHECK(wait_until([&] { return has(watch, "host " + mesh.host.address() + " does not answer: "); },
                   in_time));
  watch.send_signal(SIGTERM);
  CHECK(watch.wait_exit(in_time) == ExitStatus::exited(143));
  (void)mesh.run.wait_exit(in_time);
}
