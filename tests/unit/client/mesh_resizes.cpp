// A controller hears that a mesh is resized.
#include <doctest/doctest.h>

#include "client/controller/mesh_controller.h"
#include "tests/unit/client/controlled_mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::test::controlled {

/// What a host says of the layout of a mesh with a rank on each of these hosts.
inline RankUpdate layout_update(std::uint64_t hosts, std::uint32_t revision) {
  RankUpdate update;
  update.layout = MeshLayout{.region = Region(*Extent::make({{"host", hosts}, {"gpu", 2}})),
                             .hosts = {},
                             .revision = revision};
  for (std::uint64_t i = 0; i < hosts; ++i) update.layout->hosts.push_back(i % 2 == 0 ? kA : kB);
  return update;
}

TEST_CASE("mesh_controller: a resize is told before the ranks that came, which are asked for") {
  auto mesh = running();
  // Nothing is known of such a rank yet.
  CHECK(mesh.pushed(kA, {{rank_of(4)}, {}}, t0).events.empty());
  const auto told = mesh.pushed(kB, layout_update(3, 1), t0);
  REQUIRE(told.events.size() == 1);
  CHECK(told.events[0].kind == WatchEvent::Kind::resized);
  CHECK(told.events[0].ranks == RankSet{{4, 6}});
  CHECK_FALSE(told.events[0].went);
  CHECK(told.events[0].region->num_ranks() == 6);
  REQUIRE(told.orders.size() == 1);
  CHECK(told.orders[0].kind == Order::state);
  CHECK(told.orders[0].host == kA);
  // The other host says the same, and an earlier size comes late.
  CHECK(mesh.pushed(kA, layout_update(3, 1), t0).events.empty());
  CHECK(mesh.pushed(kA, layout_update(2, 0), t0).events.empty());
  CHECK(mesh.size() == 6);
  auto news = news_of({rank_of(0), rank_of(1), rank_of(4), rank_of(5)});
  const auto came = mesh.answered({Order::state, kA}, news, t0);
  REQUIRE(came.events.size() == 2);
  CHECK(came.events[0].rank.rank() == 4);
  CHECK(came.events[0].point() == "host=2/3,gpu=0/2");
}

TEST_CASE("mesh_controller: ranks that go are told with their ends first, whoever speaks first") {
  auto mesh = running();
  CHECK(mesh.pushed(kA, layout_update(1, 1), t0).events.empty());
  CHECK(mesh.size() == 4);
  CHECK(mesh.pushed(kB, {{rank_of(2, wire::ProcState::stopped, 2)}, {exit_report_of(2)}}, t0)
            .events.size() == 1);
  const auto last =
      mesh.pushed(kB, {{rank_of(3, wire::ProcState::stopped, 2)}, {exit_report_of(3)}}, t0);
  REQUIRE(last.events.size() == 2);
  CHECK(last.events[0].rank.rank() == 3);
  CHECK(last.events[1].kind == WatchEvent::Kind::resized);
  CHECK(last.events[1].went);
  CHECK(last.events[1].ranks == RankSet{{2, 4}});
  CHECK(mesh.size() == 2);
  CHECK(mesh.live() == 2);
  CHECK(mesh.known().size() == 2);
  CHECK(mesh.overall() == Status::Kind::running);
}

TEST_CASE(
    "mesh_controller: spec 18.1: ranks of a lost host are heard of from the host that has its "
    "place, by revision only") {
  const auto spare = *HostAddr::parse("unix:/s");
  auto mesh = make({kA, kB, spare});
  for (const auto& host : {kA, kB}) {
    const std::uint64_t first = host == kA ? 0 : 2;
    mesh.listed(host, news_of({rank_of(first), rank_of(first + 1)}), t0);
    mesh.answered({Order::stream, host}, news_of({rank_of(first), rank_of(first + 1)}), t0);
  }
  // Without a layout that says so no host has ranks of another one.
  CHECK(mesh.listed(spare, news_of({rank_of(2, wire::ProcState::ready, 1, 7)}), t0).events.empty());
  auto moved = layout_update(2, 1);
  moved.layout->hosts = {kA, spare};
  const auto told = mesh.pushed(kA, moved, t0 + 1s);
  std::vector<std::string> reasons;
  for (const auto& event : told.events) {
    REQUIRE(event.exit_report != nullptr);
    CHECK(event.rank.state() == wire::ProcState::failed);
    reasons.push_back(event.exit_report->reason);
  }
  const std::string reason = "host lost: unix:/b: its owner starts the rank again on host unix:/s";
  CHECK(reasons == std::vector<std::string>{reason, reason});
  CHECK(std::any_of(told.orders.begin(), told.orders.end(), [&](const auto& order) {
    return order.kind == Order::state && order.host == spare;
  }));
  auto news =
      news_of({rank_of(2, wire::ProcState::ready, 1, 7), rank_of(3, wire::ProcState::ready, 1, 8)});
  const auto came = mesh.answered({Order::state, spare}, news, t0 + 1s);
  REQUIRE(came.events.size() == 2);
  CHECK(came.events[0].rank.incarnation() == 7);
  CHECK(mesh.live() == 4);
  CHECK(mesh.overall() == Status::Kind::running);
  // What the lost host says when it is back is late.
  CHECK(mesh.pushed(kB, {{rank_of(2, wire::ProcState::killed, 9)}, {exit_report_of(2)}}, t0 + 2s)
            .events.empty());
  CHECK(mesh.pushed(kB, layout_update(2, 0), t0 + 2s).events.empty());
  CHECK(mesh.live() == 4);
}

TEST_CASE("mesh_controller: ends of ranks that went and were missed are no lost host") {
  auto mesh = running();
  auto news = news_of({});
  news.region = Region(*Extent::parse("host=1,gpu=2"));
  news.hosts = {kA};
  news.ranks_update.layout = layout_update(1, 1).layout;
  CHECK(mesh.pushed(kB, layout_update(1, 1), t0).events.empty());
  const auto told = mesh.answered({Order::state, kB}, news, t0);
  REQUIRE(told.events.size() == 3);
  CHECK(told.events[0].rank.state() == wire::ProcState::stopped);
  CHECK(told.events[1].rank.state() == wire::ProcState::stopped);
  CHECK(told.events[2].kind == WatchEvent::Kind::resized);
  CHECK(mesh.overall() == Status::Kind::running);
  CHECK(mesh.failed() == 0);
}

}  // namespace meshbus::test::controlled
