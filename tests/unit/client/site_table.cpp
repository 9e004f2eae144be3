// The state of a site: what changes is numbered, and views tell what has changed after a number.
#include "client/src/site/site_table.h"

#include <doctest/doctest.h>

using namespace meshbus;

namespace {

using namespace std::chrono_literals;

const SiteTable::Time kSiteStart{1000s};

HostAddr host_at(int number) {
  return *HostAddr::parse("unix:/run/h" + std::to_string(number));
}

RankReport rank(std::uint64_t number, ProcState state, std::uint64_t generation = 1) {
  RankReport report;
  report.rank = number;
  report.state = state;
  report.generation = generation;
  return report;
}

SitePart part(const std::string& name, std::vector<RankReport> ranks) {
  SitePart part;
  part.mesh.name = name;
  part.mesh.region = Region(*Extent::parse("proc=4"));
  part.mesh.ranks = std::move(ranks);
  return part;
}

/// Two hosts that are up, with ranks 0 and 1 of a mesh on the first and 2 on the second.
SiteTable make_site(SiteOptions options = {}) {
  SiteTable table({host_at(1), host_at(2)}, options, kSiteStart);
  table.set_part(host_at(1),
                 part("a-11111111111b", {rank(0, ProcState::ready), rank(1, ProcState::ready)}));
  table.set_part(host_at(2), part("a-11111111111b", {rank(2, ProcState::ready)}));
  table.on_up(host_at(1), kSiteStart);
  table.on_up(host_at(2), kSiteStart);
  return table;
}

}  // namespace

TEST_CASE("site_table: the first view has everything, the next one only what has changed") {
  auto table = make_site();
  auto view = table.view(0, kSiteStart);
  CHECK(view.hosts.size() == 2);
  REQUIRE(view.meshes.size() == 1);
  CHECK(view.meshes[0].ranks.size() == 3);
  CHECK(table.view(view.sequence, kSiteStart).meshes.empty());

  // What is told again and is the same is no change.
  table.set_part(host_at(1), part("a-11111111111b", {rank(0, ProcState::ready)}));
  CHECK(table.sequence() == view.sequence);

  table.set_part(host_at(1), part("a-11111111111b", {rank(1, ProcState::killed, 2)}));
  const auto later = table.view(view.sequence, kSiteStart);
  CHECK(later.since == view.sequence);
  CHECK(later.hosts.empty());
  REQUIRE(later.meshes.size() == 1);
  REQUIRE(later.meshes[0].ranks.size() == 1);
  CHECK(later.meshes[0].ranks[0]->report.state == ProcState::killed);

  REQUIRE(view.apply(later));
  CHECK(view.sequence == table.sequence());
  REQUIRE(view.meshes[0].ranks.size() == 3);
  CHECK(view.meshes[0].ranks[1]->report.state == ProcState::killed);
}

TEST_CASE("site_table: a number of another life of the reader is answered in full") {
  const auto before = make_site().sequence();
  SiteTable table({host_at(1)}, {}, kSiteStart + std::chrono::seconds(1));
  table.set_part(host_at(1), part("a-11111111111b", {rank(0, ProcState::ready)}));
  CHECK(table.sequence() > before);
  const auto view = table.view(before, kSiteStart);
  CHECK(view.since == 0);
  CHECK(view.hosts.size() == 1);
}

TEST_CASE("site_table: a lost host is shown with since when, and keeps what it said") {
  auto table = make_site();
  const auto before = table.sequence();
  table.on_lost(host_at(2), Error(ErrorCode::host_unreachable, "no answer"), kSiteStart + 5s);
  table.on_lost(host_at(2), Error(ErrorCode::timeout, "no answer within 3 s"), kSiteStart + 9s);
  const auto view = table.view(before, kSiteStart + 10s);
  REQUIRE(view.hosts.size() == 1);
  CHECK(view.hosts[0].state == SiteHostState::lost);
  CHECK(view.hosts[0].since == kSiteStart + 5s);
  CHECK(view.hosts[0].code == ErrorCode::timeout);
  CHECK(table.view(0, kSiteStart).meshes[0].ranks.size() == 3);
  table.on_up(host_at(2), kSiteStart + 20s);
  CHECK(table.view(before, kSiteStart).hosts[0].since == kSiteStart + 20s);
}

TEST_CASE("site_table: a mesh that no host knows any more is gone") {
  auto table = make_site();
  auto view = table.view(0, kSiteStart);
  table.keep_only(host_at(2), {});
  // The first host knows it still; what the second one had is unknown.
  REQUIRE(view.apply(table.view(view.sequence, kSiteStart)));
  CHECK(view.meshes[0].ranks[2]->report.state == ProcState::unknown);
  table.keep_only(host_at(1), {});
  const auto later = table.view(view.sequence, kSiteStart);
  CHECK(later.gone == std::vector<std::string>{"a-11111111111b"});
  REQUIRE(view.apply(later));
  CHECK(view.meshes.empty());
}

TEST_CASE("site_table: who has missed too much gets everything") {
  auto table = make_site();
  const auto before = table.sequence();
  for (std::size_t i = 0; i <= SiteTable::kMostGone; ++i) {
    table.set_part(host_at(1), part("b-" + std::to_string(i), {rank(0, ProcState::ready)}));
    table.keep_only(host_at(1), {"a-11111111111b"});
  }
  CHECK(table.view(before, kSiteStart).since == 0);
  // A number of another site.
  CHECK(table.view(table.sequence() + 1, kSiteStart).since == 0);
}

TEST_CASE("site_table: ranks and events are bounded, and what is left out is counted") {
  auto table = make_site({.ranks = 2, .events = 3});
  auto view = table.view(0, kSiteStart);
  CHECK(view.meshes[0].ranks.size() == 2);
  CHECK(view.cut == 1);
  table.set_part(host_at(2), part("a-11111111111b", {rank(2, ProcState::ready, 2)}));
  CHECK(table.view(0, kSiteStart).cut == 1);
  for (int i = 0; i < 5; ++i) {
    HostEvent event;
    event.text = std::to_string(i);
    table.add_events({event});
  }
  view = table.view(0, kSiteStart);
  REQUIRE(view.events.size() == 3);
  CHECK(view.events[0].event.text == "2");
}

TEST_CASE("site_table: what waits for a rank at its broker is shown at the rank, while it waits") {
  auto table = make_site();
  SiteBroker broker;
  broker.queues.push_back(
      {.peer = "unix:/run/h1,a_1-11111111111b", .bytes = 300, .messages = 3, .waits = 2s});
  table.set_broker(host_at(1), broker, kSiteStart);
  auto view = table.view(0, kSiteStart);
  CHECK(view.meshes[0].ranks[1]->queued_messages == 3);
  CHECK(view.meshes[0].ranks[1]->queue_waits == 2s);
  CHECK(view.meshes[0].ranks[0]->queued_messages == 0);
  broker.queues.clear();
  table.set_broker(host_at(1), broker, kSiteStart + 1s);
  REQUIRE(view.apply(table.view(view.sequence, kSiteStart)));
  CHECK(view.meshes[0].ranks[1]->queued_messages == 0);
}

TEST_CASE("site_table: a broker that passes messages on has a rate, a quiet one changes nothing") {
  auto table = make_site();
  table.set_broker(host_at(1), SiteBroker{.received = 1000}, kSiteStart);
  table.set_broker(host_at(1), SiteBroker{.received = 3000, .delivered = 9}, kSiteStart + 2s);
  CHECK(table.view(0, kSiteStart).hosts[0].messages_per_second == doctest::Approx(1000));
  table.set_broker(host_at(1), SiteBroker{.received = 3003, .delivered = 9}, kSiteStart + 5s);
  const auto before = table.sequence();
  table.set_broker(host_at(1), SiteBroker{.received = 3006, .delivered = 9}, kSiteStart + 8s);
  CHECK(table.sequence() == before);
}

TEST_CASE("site_table: what changes of a controller is an event, and what stays the same is none") {
  auto table = make_site();
  SiteController told;
  told.controller = "unix:/run/h1,controller";
  told.state = SiteHostState::up;
  CHECK_FALSE(table.has_controller(host_at(1)));
  table.set_controller(host_at(1), std::nullopt, kSiteStart);
  table.set_controller(host_at(1), told, kSiteStart);
  CHECK(table.has_controller(host_at(1)));
  auto view = table.view(0, kSiteStart);
  REQUIRE(view.controllers.size() == 1);
  CHECK(view.controllers[0].host == host_at(1));
  CHECK(view.controllers[0].since == kSiteStart);
  REQUIRE(view.events.size() == 1);
  CHECK(view.events[0].event.kind == EventKind::controller_up);
  CHECK(view.events[0].event.by == told.controller);
  table.set_controller(host_at(1), told, kSiteStart + 1s);
  CHECK(table.sequence() == view.sequence);

  told.unreachable = {"unix:/run/h2"};
  told.late_polls = 2;
  table.set_controller(host_at(1), told, kSiteStart + 2s);
  auto later = table.view(view.sequence, kSiteStart + 2s);
  REQUIRE(later.events.size() == 2);
  CHECK(later.events[0].event.kind == EventKind::controller_late);
  CHECK(later.events[1].event.kind == EventKind::host_unreachable);
  CHECK(later.events[1].event.text == "unix:/run/h2");
  CHECK(later.controllers[0].since == kSiteStart);
  REQUIRE(view.apply(later));
  CHECK(view.controllers.size() == 1);
  CHECK(view.controllers[0].late_polls == 2);

  told.unreachable.clear();
  table.set_controller(host_at(1), told, kSiteStart + 3s);
  table.on_lost(host_at(1), Error(ErrorCode::host_unreachable, "no answer"), kSiteStart + 4s);
  table.set_controller(host_at(1), std::nullopt, kSiteStart + 5s);
  later = table.view(view.sequence, kSiteStart + 5s);
  REQUIRE(later.events.size() == 2);
  CHECK(later.events[0].event.kind == EventKind::host_back);
  CHECK(later.events[1].event.kind == EventKind::controller_lost);
  CHECK(later.controllers[0].state == SiteHostState::lost);
  CHECK(later.controllers[0].since == kSiteStart + 4s);
  CHECK_FALSE(table.has_controller(host_at(1)));
}

TEST_CASE("site_table: a lost host that is back tells nothing of ranks that have moved") {
  SiteTable table({host_at(1), host_at(2), host_at(3)}, {}, kSiteStart);
  const auto told = [](std::uint32_t revision, std::vector<HostAddr> hosts, RankReport of) {
    auto made = part("a-11111111111b", {std::move(of)});
    made.mesh.region = Region(*Extent::parse("host=2"));
    made.mesh.hosts = std::move(hosts);
    made.mesh.revision = revision;
    return made;
  };
  const std::vector<HostAddr> before{host_at(1), host_at(2)};
  const std::vector<HostAddr> after{host_at(1), host_at(3)};
  table.set_part(host_at(2), told(0, before, rank(1, ProcState::ready)));
  table.set_part(host_at(3), told(1, after, rank(1, ProcState::ready, 2)));
  table.set_part(host_at(2), told(0, before, rank(1, ProcState::killed, 9)));
  // One that has not heard of it tells of its own ranks all the same.
  table.set_part(host_at(1), told(0, before, rank(0, ProcState::ready)));
  const auto view = table.view(0, kSiteStart);
  REQUIRE(view.meshes.size() == 1);
  REQUIRE(view.meshes[0].ranks.size() == 2);
  CHECK(view.meshes[0].ranks[0]->report.state == ProcState::ready);
  CHECK(view.meshes[0].ranks[1]->report.state == ProcState::ready);
  CHECK(view.meshes[0].ranks[1]->report.host == host_at(3));
}
