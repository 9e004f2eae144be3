// Spec 8.7: a handler that does not return is trouble of its rank, with its name, its age and what
// waits behind it; the trouble ends when the handler returns.
#include "meshbus/controller.h"
#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;
using nlohmann::json;

namespace {

/// Two procs that send a heartbeat every 100 ms, and whose handlers may run for half a second.
struct StuckProcs {
  explicit StuckProcs(const std::string& program, const std::vector<std::string>& arguments = {})
      : context(must(Context::create(quick({{"handler.stuck", "500ms"}})))),
        hosts(must(HostMesh::attach(context, "hosts", {must(HostAddr::parse(host.address()))}))) {
    ProcSpec spec{.kind = ProcKind::mesh, .command = {bin(program)}};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    Handlers handlers = heard.handlers();
    handlers.on_trouble = [this](const RankReport& rank) {
      const std::lock_guard lock(mutex);
      troubles.push_back(rank);
    };
    mesh.emplace(must(hosts.spawn("m", extent("gpu=2"), std::move(spec), std::move(handlers))));
  }
  std::vector<RankReport> told() const {
    const std::lock_guard lock(mutex);
    return troubles;
  }
  /// The last thing that was told of a trouble, in time.
  bool is_told(Trouble trouble) const {
    return wait_until(
        [&] {
          const auto all = told();
          return !all.empty() && all.back().trouble == trouble;
        },
        in_time);
  }

  mutable std::mutex mutex;
  std::vector<RankReport> troubles;
  StandingHost host{{"--set", "heartbeat=100ms"}};
  Heard heard;
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> mesh;
};

}  // namespace

TEST_CASE("stuck handler: a handler that runs too long is told by its port, and when it returns") {
  StuckProcs watched("meshbus_test_proc", {"serve"});
  const auto& mesh = *watched.mesh;
  const auto proc = must(mesh.proc(1));
  REQUIRE(proc.send(watched.context, 12, "6000").has_value());
  for (int i = 0; i < 3; ++i) REQUIRE(proc.send(watched.context, 16, "x").has_value());
  REQUIRE(watched.is_told(Trouble::stuck));
  const auto rank = watched.told().back();
  CHECK(rank.rank == 1);
  INFO(rank.trouble_reason);
  CHECK(rank.trouble_reason.find("its handler port 12 has run for ") == 0);
  CHECK(rank.trouble_reason.find(", and 3 messages wait behind it") != std::string::npos);
  CHECK(rank.trouble_since.has_value());
  const Words at{"--hosts", watched.host.address()};
  const json listing = parse_json(run_cli({"ps", "--json", at[0], at[1]}).out);
  const auto& shown = listing.at("meshes")[0].at("ranks")[1].at("trouble");
  CHECK(shown.at("trouble") == "stuck");
  CHECK(shown.at("reason").get<std::string>().find("its handler port 12") == 0);
  CHECK(run_cli({"status", at[0], at[1]}).out.find("stuck") != std::string::npos);
  CHECK(run_cli({"ps", at[0], at[1]}).out.find("stuck: its handler port 12") != std::string::npos);
  // It is no end, and nothing is done to it.
  REQUIRE(watched.is_told(Trouble::none));
  CHECK(must(proc.call(watched.context, 16, "y", in_time)) == "xxxy");
  CHECK(watched.told().size() == 2);
  CHECK(watched.heard.failures().empty());
}

TEST_CASE("stuck handler: a setting of the proc says what too long is, also while it runs") {
  StuckProcs watched("meshbus_test_proc", {"serve"});
  const auto proc = must(watched.mesh->proc(0));
  REQUIRE(must(
      watched.context.change_settings(watched.mesh->ref(), {{"handler.stuck", "0s"}}, in_time))[0]);
  CHECK(must(proc.call(watched.context, 12, "2000", in_time)) == "done");
  CHECK(watched.told().empty());
  REQUIRE(must(watched.context.change_settings(watched.mesh->ref(), {{"handler.stuck", "200ms"}},
                                               in_time))[0]);
  CHECK(must(proc.call(watched.context, 12, "2000", in_time)) == "done");
  CHECK(watched.is_told(Trouble::none));
  REQUIRE(watched.told().size() == 2);
  CHECK(watched.told()[0].trouble == Trouble::stuck);
}

TEST_CASE("stuck handler: an actor is told by its name and message") {
  StuckProcs watched("meshbus_test_actors");
  auto actors = must(watched.mesh->spawn_actors("counter", "slow", "0"));
  REQUIRE(must(actors.at("gpu", 1)).send("sleep", "5000").has_value());
  REQUIRE(watched.is_told(Trouble::stuck));
  const auto rank = watched.told().back();
  CHECK(rank.rank == 1);
  INFO(rank.trouble_reason);
  CHECK(rank.trouble_reason.find("its handler actor slow, sleep has run for ") == 0);
  REQUIRE(watched.is_told(Trouble::none));
}
