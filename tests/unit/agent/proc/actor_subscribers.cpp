#include "agent/proc/actors/actor_subscribers.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace meshbus;
using namespace meshbus::mesh_proc;

namespace {

ProcId subscriber(char letter) {
  return *ProcId::parse(std::string("unix:/h0,client-11111111111") + letter);
}

wire::ActorStateT changed(const std::string& name, wire::StatusKind status, std::uint64_t pid = 0) {
  wire::ActorStateT state;
  state.name = name;
  state.pid = pid;
  state.status = status;
  return state;
}

}  // namespace

TEST_CASE("actor_subscribers: hear of the names that they named, in order") {
  ActorSubscribers subscribers;
  subscribers.add("adder", subscriber('a'));
  subscribers.add("other", subscriber('b'));
  const auto events = subscribers.on_changes({changed("adder", wire::StatusKind::running),
                                              changed("unheard", wire::StatusKind::running),
                                              changed("adder", wire::StatusKind::stopping)});
  REQUIRE(events.size() == 1);
  CHECK(events[0].first == subscriber('a'));
  REQUIRE(events[0].second.actors.size() == 2);
  CHECK(events[0].second.actors[1]->status == wire::StatusKind::stopping);
}

TEST_CASE("actor_subscribers: many changes are told in messages of a bounded size") {
  ActorSubscribers subscribers;
  subscribers.add("adder", subscriber('a'));
  const std::vector<wire::ActorStateT> states(ActorSubscribers::kEventStates + 1,
                                              changed("adder", wire::StatusKind::running, 1));
  const auto events = subscribers.on_changes(states);
  REQUIRE(events.size() == 2);
  CHECK(events[0].second.actors.size() == ActorSubscribers::kEventStates);
  CHECK(events[1].second.actors.size() == 1);
}

TEST_CASE("actor_subscribers: nothing follows the end of a name's first actor") {
  ActorSubscribers subscribers;
  subscribers.add("adder", subscriber('a'));
  CHECK(subscribers.on_changes({changed("adder", wire::StatusKind::failed, 2)}).size() == 1);
  CHECK(subscribers.on_changes({changed("adder", wire::StatusKind::failed)}).size() == 1);
  CHECK(subscribers.on_changes({changed("adder", wire::StatusKind::failed)}).empty());
}

TEST_CASE("actor_subscribers: one that came back, or has ended its streams, hears nothing") {
  ActorSubscribers subscribers;
  subscribers.add("adder", subscriber('a'));
  subscribers.add("adder", subscriber('b'));
  subscribers.remove("adder", subscriber('a'));
  subscribers.forget(subscriber('b').key());
  CHECK(subscribers.on_changes({changed("adder", wire::StatusKind::running)}).empty());
}

TEST_CASE("actor_subscribers: one has room for a bounded number of names") {
  ActorSubscribers subscribers;
  for (std::size_t i = 0; i < ActorSubscribers::kMostNames; ++i) {
    REQUIRE(subscribers.has_room(subscriber('a')));
    subscribers.add("n" + std::to_string(i), subscriber('a'));
  }
  CHECK_FALSE(subscribers.has_room(subscriber('a')));
  CHECK(subscribers.has_room(subscriber('b')));
}
