#include "client/controller/supervisor.h"

#include <doctest/doctest.h>

#include "tests/unit/client/controlled_mesh.h"
#include "wire/supervision_generated.h"

namespace meshbus::test::controlled {

using Question = Supervisor::Question::Kind;

TEST_CASE("supervisor: a poll that comes late is counted and told, and nobody is blamed for it") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  supervisor.turn(t0);
  const auto late = supervisor.turn(t0 + 25s);
  REQUIRE(late.events.size() == 1);
  CHECK(late.events[0].kind == WatchEvent::Kind::late);
  CHECK(late.events[0].lateness == 15s);
  CHECK(supervisor.late_polls() == 1);
  CHECK(supervisor.unreachable().empty());
}

TEST_CASE(
    "supervisor: a host that says nothing is unreachable within 5 s, told once, and so is its "
    "return") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  std::vector<WatchEvent> events;
  auto now = t0;
  for (; now < t0 + 5s; now = std::max(now + 1ms, supervisor.next_due())) {
    for (auto& event : supervisor.turn(now).events) events.push_back(event);
  }
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == WatchEvent::Kind::host_unreachable);
  const auto back = supervisor.answer({Question::probe, kA, {}, {}}, HostUpdate{1, 0}, now);
  REQUIRE(back.events.size() == 1);
  CHECK(back.events[0].kind == WatchEvent::Kind::host_back);
}

TEST_CASE("supervisor: pages of a list, what they do not speak of is not taken for gone") {
  Supervisor supervisor({.hosts = {kA}, .mesh = {}}, t0);
  supervisor.connected(true, t0);
  const auto page = [&](const std::string& after, const std::vector<std::string>& names,
                        bool more) {
    ListUpdate list{.meshes = {}, .after = after, .more = more};
    for (const auto& name : names) {
      list.meshes.push_back(news_of({rank_of(0)}));
      list.meshes.back().mesh = name;
    }
    return supervisor.answer({Question::list, kA, {}, after}, list, t0);
  };
  const auto is_list = [](const Supervisor::Question& question) {
    return question.kind == Question::list;
  };
  const auto first = page("", {"a", "b"}, true);
  const auto next = std::find_if(first.questions.begin(), first.questions.end(), is_list);
  REQUIRE(next != first.questions.end());
  CHECK(next->after == "b");
  page("b", {"c"}, false);
  CHECK(supervisor.meshes().size() == 3);
  // A host that says the same page for ever is not asked for ever.
  const auto same = page("b", {"a", "b"}, true);
  CHECK(std::none_of(same.questions.begin(), same.questions.end(), is_list));
}

}  // namespace meshbus::test::controlled
