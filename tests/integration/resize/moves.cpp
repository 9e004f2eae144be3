// Ranks of a lost host that move to a spare (spec 18.1), as a program has it.
#include <array>
#include <csignal>
#include <mutex>

#include "tests/world/client_library.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// Hosts, of which a mesh has the first two, and the others are spares.
struct Movable {
  explicit Movable(std::size_t in_all)
      : all(must(
            HostMesh::process(context, must(Extent::make({{"host", in_all}})), of_this_build()))),
        first(must(HostMesh::attach(context, "first", {all.hosts()[0], all.hosts()[1]}))) {}

  ProcMesh servers(ProcSpec spec = {}) {
    spec.kind = ProcKind::mesh;
    spec.command = {bin("meshbus_test_proc"), "serve"};
    spec.restart = {.on = RestartPolicy::On::failure, .budget = 1, .delay = 10ms, .jitter = 0};
    spec.spares = {all.hosts().begin() + 2, all.hosts().end()};
    auto handlers = heard.handlers();
    handlers.on_restart = [this](const RestartReport& report) {
      const std::lock_guard lock(mutex);
      restarts.push_back(report);
    };
    handlers.on_move = [this](const MoveReport& report) {
      const std::lock_guard lock(mutex);
      moves.push_back(report);
    };
    return must(first.spawn("ranks", extent("gpu=2"), std::move(spec), std::move(handlers)));
  }
  void kill(std::size_t host) {
    const auto agent = must(all.states())[host].pid;
    for (const auto warden : wardens_of(::getpid())) {
      const auto roles = find_roles(warden);
      if (roles && roles->agent == static_cast<pid_t>(agent)) ::kill(warden, SIGKILL);
    }
  }
  std::string call(const ProcMesh& mesh, std::uint64_t rank, std::uint32_t port,
                   std::string_view body = {}) {
    const auto answer = must(mesh.proc(rank)).call(context, port, body, in_time);
    return answer ? *answer : answer.error().to_string();
  }
  static bool is_again(const ProcMesh& mesh, std::uint64_t rank, std::uint64_t restarts) {
    return wait_until(
        [&] {
          const auto report = mesh.known().ranks[rank];
          return report.restarts == restarts && report.state == ProcState::ready;
        },
        in_time);
  }
  std::vector<MoveReport> told() {
    const std::lock_guard lock(mutex);
    return moves;
  }

  Context context = must(Context::create(quick()));
  HostMesh all;
  HostMesh first;
  Heard heard;
  std::mutex mutex;
  std::vector<RestartReport> restarts;
  std::vector<MoveReport> moves;
};

}  // namespace

TEST_CASE(
    "moves: spec 18.1: ranks of a lost host move to a spare, and calls to them reach the new "
    "procs") {
  Movable hosts(4);
  auto mesh = hosts.servers();
  const auto before = mesh.known().ranks;
  const auto old = mesh.ref();
  CHECK(hosts.call(mesh, 0, 26, "2") == "rank 0");
  hosts.kill(1);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({2, 3}))
    REQUIRE(Movable::is_again(mesh, rank, 1));
  CHECK(mesh.ref().hosts()[1] == hosts.all.hosts()[2]);
  CHECK(mesh.size() == 4);
  // From here, and by their numbers from ranks that ran on and from those that have moved.
  CHECK(hosts.call(mesh, 2, 6).starts_with("2/4 at host=1/2,gpu=0/2"));
  CHECK(wait_until([&] { return hosts.call(mesh, 0, 26, "2") == "rank 0"; }, in_time));
  CHECK(hosts.call(mesh, 1, 26, "3") == "rank 1");
  CHECK(hosts.call(mesh, 3, 26, "0") == "rank 3");
  CHECK(hosts.call(mesh, 3, 26, "2") == "rank 3");
  const auto after = mesh.known().ranks;
  for (const std::size_t rank : std::to_array<std::size_t>({0, 1})) {
    CHECK(after[rank].pid == before[rank].pid);
    CHECK(after[rank].incarnation == before[rank].incarnation);
  }
  for (const std::size_t rank : std::to_array<std::size_t>({2, 3}))
    CHECK(after[rank].host == hosts.all.hosts()[2]);
  // What names the lost host is not led on.
  CHECK_FALSE(must(old.proc_of(2)) == must(mesh.ref().proc_of(2)));
  REQUIRE(hosts.told().size() == 1);
  CHECK(hosts.told()[0].ranks == RankSet{{2, 4}});
  CHECK(hosts.told()[0].from == hosts.all.hosts()[1]);
  CHECK(hosts.told()[0].to == hosts.all.hosts()[2]);

  // The second loss, of rank 0, goes to the other spare: MASTER_ADDR and the budget are no
  // hindrance.
  hosts.kill(0);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({0, 1}))
    REQUIRE(Movable::is_again(mesh, rank, 1));
  CHECK(hosts.call(mesh, 0, 6).starts_with("0/4 at host=0/2,gpu=0/2"));
  CHECK(wait_until([&] { return hosts.call(mesh, 2, 26, "0") == "rank 2"; }, in_time));
  // A restart in place is as ever, on the host that the rank has now.
  CHECK(hosts.call(mesh, 2, 5).find("rank 2") != std::string::npos);
  REQUIRE(Movable::is_again(mesh, 2, 2));
  CHECK(hosts.call(mesh, 0, 26, "2") == "rank 0");
  CHECK(hosts.heard.failures().empty());
  const auto outcome = must(mesh.stop());
  CHECK(outcome.former_lives.size() == 5);
  CHECK(outcome.former_lives[0].cause == Cause::host_lost);
}

TEST_CASE(
    "moves: a spare that is lost is skipped, and one that is lost later is followed by another") {
  Movable hosts(5);
  auto mesh = hosts.servers();
  hosts.kill(2);
  REQUIRE(wait_until([&] { return wardens_of(::getpid()).size() == 4; }, in_time));
  hosts.kill(1);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({2, 3}))
    REQUIRE(Movable::is_again(mesh, rank, 1));
  CHECK(mesh.ref().hosts()[1] == hosts.all.hosts()[3]);
  hosts.kill(3);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({2, 3}))
    REQUIRE(Movable::is_again(mesh, rank, 2));
  CHECK(mesh.ref().hosts()[1] == hosts.all.hosts()[4]);
  // Rank 0, on a host that goes on, hears of the new place by itself.
  CHECK(wait_until([&] { return hosts.call(mesh, 2, 26, "0") == "rank 2"; }, in_time));
  CHECK(hosts.heard.failures().empty());
  // None is left: the ranks have failed as without spares, and the others are there.
  hosts.kill(4);
  REQUIRE(wait_until([&] { return hosts.heard.failures().size() == 2; }, in_time));
  CHECK(hosts.heard.failures()[0].cause == Cause::host_lost);
  CHECK(hosts.call(mesh, 0, 26, "1") == "rank 0");
  must(mesh.stop());
}

TEST_CASE("moves: a mesh grows and shrinks after a move, and spares need a policy") {
  Movable hosts(4);
  auto mesh = hosts.servers();
  hosts.kill(0);
  for (const std::uint64_t rank : std::to_array<std::uint64_t>({0, 1}))
    REQUIRE(Movable::is_again(mesh, rank, 1));
  CHECK(must(mesh.grow({.hosts = {hosts.all.hosts()[1]}})).came == RankSet{{4, 6}});
  CHECK(must(mesh.grow({.hosts = {hosts.all.hosts()[2]}})).came == RankSet{{6, 8}});
  CHECK(hosts.call(mesh, 7, 26, "0") == "rank 7");
  CHECK(hosts.call(mesh, 0, 26, "4") == "rank 0");
  CHECK(must(mesh.shrink({.blocks = 2})).gone.size() == 4);
  CHECK(hosts.call(mesh, 0, 26, "3") == "rank 0");
  must(mesh.stop());
  const auto refused =
      hosts.first.spawn("none", extent("gpu=1"),
                        {.command = {"true"},
                         .restart = {.on = RestartPolicy::On::failure, .gang = Gang::all},
                         .spares = {hosts.all.hosts()[2]}});
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::configuration_error);
}
