// A controller and its subscribers while a mesh grows and shrinks (spec 8.2, 18.2).
#include "tests/integration/controller/harness.h"

using namespace std::chrono_literals;
using namespace meshbus;
using namespace meshbus::test;

namespace {

/// "resized {4..6} came" and "0 ready", in the order in which they were told.
std::string story(const Subscriber& subscriber) {
  std::string text;
  for (const auto& event : told_to(subscriber)) {
    if (event.kind == WatchEvent::Kind::trouble) continue;
    text += text.empty() ? "" : ", ";
    if (event.kind == WatchEvent::Kind::resized) {
      text += "ranks " + to_string(event.ranks) + (event.went ? " went" : " came");
    } else if (event.kind == WatchEvent::Kind::ended) {
      text += "ended";
    } else {
      text += std::to_string(event.rank.rank()) + " " + wire::EnumNameProcState(event.rank.state());
    }
  }
  return text;
}

}  // namespace

TEST_CASE("resize: spec 8.2: a subscriber hears which ranks came and which went, once, in order") {
  Controlled watched(2, {"supervision.poll=300ms", "supervision.probe=100ms"});
  auto first = must(HostMesh::attach(watched.context, "first", {watched.home()}));
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto mesh =
      must(first.spawn("m", extent("gpu=1"), shell("exec sleep 100"), watched.heard.handlers()));
  const auto has_told = [&](const std::string& wanted) {
    const bool is_so = subscriber.turn_until([&] { return story(subscriber) == wanted; });
    CHECK_MESSAGE(is_so, story(subscriber));
  };
  has_told("0 ready");
  must(mesh.grow({.hosts = {watched.hosts->hosts()[1]}}));
  has_told("0 ready, ranks 1 came, 1 ready");
  CHECK(subscriber.told.back().point() == "host=1/2,gpu=0/1");
  CHECK(overview_of(subscriber, mesh.ref().mesh().to_string()).ranks == 2);
  must(mesh.shrink());
  has_told("0 ready, ranks 1 came, 1 ready, 1 stopped, ranks 1 went");
  CHECK(overview_of(subscriber, mesh.ref().mesh().to_string()).ranks == 1);
  must(mesh.grow({.hosts = {watched.home()}}));
  has_told("0 ready, ranks 1 came, 1 ready, 1 stopped, ranks 1 went, ranks 1 came, 1 ready");
  // Two more polls tell nothing again.
  const auto heartbeats = subscriber.heartbeats;
  REQUIRE(subscriber.turn_until([&] { return subscriber.heartbeats >= heartbeats + 2; }));
  has_told("0 ready, ranks 1 came, 1 ready, 1 stopped, ranks 1 went, ranks 1 came, 1 ready");
  CHECK(subscriber.exit_reports == 1);
  must(mesh.stop());
  REQUIRE(subscriber.turn_until([&] {
    return !subscriber.kinds.empty() && subscriber.kinds.back() == wire::MeshEventKind::ended;
  }));
}

TEST_CASE("resize: spec 8.5: a mesh that has grown is handed over with all its ranks") {
  Controlled watched(2, {"supervision.poll=300ms", "supervision.probe=100ms"});
  auto first = must(HostMesh::attach(watched.context, "first", {watched.home()}));
  Subscriber subscriber(watched.home());
  subscribe_to(subscriber);
  auto mesh = must(first.spawn("m", extent("gpu=1"),
                               {.command = {"sh", "-c", "exec sleep 100"},
                                .restart = {.on = RestartPolicy::On::failure, .delay = 10ms}},
                               watched.heard.handlers()));
  must(mesh.grow({.hosts = {watched.hosts->hosts()[1]}}));
  REQUIRE(mesh.handover(subscriber.controller).has_value());
  const auto refused = mesh.grow();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::refused);
  CHECK(refused.error().detail().find("it was handed over") != std::string::npos);
  CHECK_FALSE(mesh.shrink().has_value());
  auto asker = must(Context::create());
  auto all = must(HostMesh::attach(asker, "hosts", watched.hosts->hosts()));
  const auto whole_name = mesh.ref().mesh().to_string();
  const auto not_its = all.grow_mesh(whole_name);
  REQUIRE_FALSE(not_its.has_value());
  CHECK(not_its.error().code() == ErrorCode::refused);
  CHECK_MESSAGE(not_its.error().detail().find("was handed over to controller") != std::string::npos,
                not_its.error().detail());
  // The controller restarts the rank that came later.
  kill_rank(mesh, 1);
  CHECK(subscriber.turn_until([&] {
    const auto states = heard_by(subscriber);
    return std::any_of(states.begin(), states.end(), [](const wire::RankState& rank) {
      return rank.rank() == 1 && rank.restarts() == 1 && rank.state() == wire::ProcState::ready;
    });
  }));
  // Another launcher takes it over with both ranks, and may make it smaller, but not larger.
  auto other = must(Context::create());
  auto hosts = must(HostMesh::attach(other, "hosts", watched.hosts->hosts()));
  Heard heard;
  auto handlers = heard.handlers();
  handlers.on_resize_order = [](const ResizeOrder& order) { return order.carry_out(); };
  auto taken = must(hosts.take_over(whole_name, std::move(handlers)));
  CHECK(taken.size() == 2);
  const auto larger = taken.grow();
  REQUIRE_FALSE(larger.has_value());
  CHECK(larger.error().detail().find("it was taken over") != std::string::npos);
  const auto by_order = all.grow_mesh(whole_name);
  REQUIRE_FALSE(by_order.has_value());
  CHECK(by_order.error().detail().find("it was taken over") != std::string::npos);
  CHECK(must(all.shrink_mesh(whole_name)).size == 1);
  CHECK(taken.ref().region().to_string() == "host=1/1,gpu=1/1");
  must(taken.stop());
  CHECK(heard.failures().empty());
}
