// Actor meshes, from a launcher that is this test program: procs are real processes, on hosts of their own.
#include <csignal>
#include <future>
#include <set>

#include "tests/integration/client_harness.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Procs with the actors of actor_program, and a launcher.
struct Actors {
  explicit Actors(std::string_view host_extent, std::string_view per_host, std::vector<std::string> arguments = {})
      : context(must(Context::create())), hosts(must(HostMesh::process(context, extent(host_extent), of_this_build()))) {
    ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    procs.emplace(must(hosts.spawn("actors", extent(per_host), std::move(spec), heard.handlers())));
  }
  ActorSpawnOptions listening() {
    return {.on_failure = [this](const ActorReport& report) {
      const std::lock_guard lock(mutex);
      failures.push_back(report);
    }};
  }
  std::vector<ActorReport> heard_failures() {
    const std::lock_guard lock(mutex);
    return failures;
  }
  ActorMesh spawn(const std::string& type, std::string_view name, std::string_view params) {
    return must(procs->spawn_actors(type, name, params, listening()));
  }
  pid_t pid(std::uint64_t rank) const { return static_cast<pid_t>(procs->known().ranks[rank].pid); }

  Heard heard;
  std::mutex mutex;
  std::vector<ActorReport> failures;  // guarded by mutex
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> procs;
};

std::vector<std::string> values(const RankAnswers& answers) {
  std::vector<std::string> texts;
  for (const auto& answer : answers) texts.push_back(answer ? *answer : answer.error().to_string());
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("actors: one in each proc of two hosts is made, asked, told and stopped") {
  Actors actors("host=2", "gpu=4");
  auto tally = actors.spawn("counter", "tally", "40");
  CHECK(tally.size() == 8);
  CHECK(values(must(tally.call("add", "2", in_time))) == Texts(8, "42"));
  CHECK(tally.send("add", "8").has_value());
  CHECK(values(must(tally.call(7, "", in_time))) == Texts(8, "50"));
  const auto where = must(tally.call("where", "", in_time));
  for (std::uint64_t rank = 0; rank < 8; ++rank)
    CHECK(where[rank].value() == std::to_string(rank) + " " + must(actors.procs->ref().proc_at(rank)).to_string() + ",tally[0]");
  const auto states = must(tally.states(in_time));
  REQUIRE(states.size() == 8);
  CHECK(states[5].status == Status::Kind::running);
  CHECK(states[5].type == "counter");
  CHECK(states[5].rank == 5);
  CHECK(states[5].point == "host=1/2,gpu=1/4");
  CHECK(states[5].handled == 4);
  const auto ended = must(tally.stop({.reason = "seen enough"}));
  for (const auto& report : ended) {
    CHECK(report.status == Status::Kind::stopped);
    CHECK(report.reason == "seen enough");
  }
  CHECK(must(tally.stop()).size() == 8);
  const auto late = must(tally.call(7, "", in_time));
  CHECK(late[3].error().code() == ErrorCode::no_such_port);
  CHECK(late[3].error().detail().find("has stopped: seen enough") != std::string::npos);
  CHECK(actors.heard_failures().empty());
  must(actors.procs->stop());
  must(actors.hosts.shutdown(in_time));
}
