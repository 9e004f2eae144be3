#include "cli/watch/why_story.h"

#include <doctest/doctest.h>

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

const std::string kMesh = "train-13Se1Maqzryj";

std::chrono::system_clock::time_point at(int seconds) {
  return std::chrono::system_clock::time_point(1'700'000'000s + std::chrono::seconds(seconds));
}

HostEvent happened(EventKind kind, int seconds, const std::string& text,
                   const std::string& mesh = kMesh) {
  HostEvent event;
  event.kind = kind;
  event.host = *HostAddr::parse("tcp:h1:7420");
  event.time = at(seconds);
  event.mesh = mesh;
  event.text = text;
  return event;
}

HostEvent ended(std::uint64_t rank, int seconds, int exit_code) {
  auto event = happened(EventKind::proc_ended, seconds + 5, "");
  RankReport end;
  end.rank = rank;
  end.host = event.host;
  end.state = ProcState::stopped;
  end.exit_code = exit_code;
  end.cause = Cause::exited;
  end.reason = "exit " + std::to_string(exit_code);
  end.started = at(0);
  end.ended = at(seconds);
  event.end = end;
  return event;
}

HostEvent stopped_because(std::uint64_t rank, int seconds, std::uint64_t because) {
  auto event = ended(rank, seconds, 0);
  event.end->step = StopStep::term;
  event.end->cause = Cause::stopped;
  event.end->signal = 15;
  event.end->reason = "killed by SIGTERM";
  event.end->stop_reason = "rank failed";
  event.end->stopped_by = "me";
  event.end->consequence = true;
  event.end->because = because;
  return event;
}

HostEvent of(const std::string& mesh, HostEvent event) {
  event.mesh = mesh;
  return event;
}

std::vector<StoryRole> roles(const Story& story) {
  std::vector<StoryRole> list;
  for (const auto& entry : story.entries) list.push_back(entry.role);
  return list;
}

TEST_CASE("why_story: a rank whose host is lost is told by those that were stopped for it") {
  std::vector<HostEvent> events{stopped_because(0, 4, 2), stopped_because(1, 4, 2)};
  for (auto& event : events)
    event.end->stop_reason = "rank 2 failed: host lost: tcp:h2:7420: no answer for 30s";
  const auto story = tell(events, kMesh, {});
  REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::consequence});
  CHECK(words_of(story.entries[0].event) ==
        "rank 2 failed: host lost: tcp:h2:7420: no answer for 30s (by me)");
  CHECK(to_string(story.entries[1].ranks) == "0-1");
  // One that has told of its end itself needs nobody.
  events.push_back(ended(2, 3, 7));
  CHECK(words_of(tell(events, kMesh, {}).entries[0].event) == "exit 7");
}

TEST_CASE("why_story: a failure that another life has mended is not what ended the mesh") {
  std::vector<HostEvent> events{ended(1, 2, 3), ended(1, 4, 3), ended(0, 6, 9), ended(1, 7, 5)};
  events[1].end->restarts = 1;
  events[3].end->restarts = 2;
  const auto story = tell(events, kMesh, {});
  REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::also, StoryRole::former});
  CHECK(story.entries[0].event.end->rank == 0);
  CHECK(words_of(story.entries[1].event) == "exit 5");
  CHECK(to_string(story.entries[2].ranks) == "1");  // twice the same
  CHECK(story.entries[2].ends == 2);
  CHECK(story.entries[2].is_repeated);
  CHECK(story.entries[2].time == at(2));
  CHECK(story.entries[2].last == at(4));
  CHECK(story.entries[0].ends == 1);
  CHECK_FALSE(story.entries[0].is_repeated);
  CHECK(story.entries[0].last == at(6));
}

TEST_CASE(
    "why_story: the first failure by the time of its end, its consequences as one, then the "
    "others") {
  auto order = happened(EventKind::stop_asked, 11, "rank 2 failed");
  order.because = 2;
  const auto story =
      tell({ended(4, 1, 0), order, stopped_because(0, 12, 2), stopped_because(1, 12, 2),
            stopped_because(3, 13, 2), ended(5, 11, 7), ended(2, 10, 3)},
           kMesh, {});
  // The order is told by what it brought.
  REQUIRE(roles(story) ==
          std::vector{StoryRole::first, StoryRole::consequence, StoryRole::also, StoryRole::also});
  CHECK(story.entries[0].event.end->rank == 2);
  CHECK(to_string(story.entries[1].ranks) == "0-1,3");
  CHECK(story.entries[1].ends == 3);
  CHECK_FALSE(story.entries[1].is_repeated);
  CHECK(story.entries[1].last == at(13));
  CHECK(words_of(story.entries[1].event) ==
        "stopped: rank failed (by me); after SIGTERM: killed by SIGTERM");
  CHECK(to_string(story.entries[2].ranks) == "4");
  CHECK(to_string(story.entries[3].ranks) == "5");
  CHECK(roles(tell({ended(2, 10, 3), order}, kMesh, {})) ==
        std::vector{StoryRole::first, StoryRole::consequence});
}

TEST_CASE("why_story: of single ranks the first cause is told all the same") {
  const auto story = tell({ended(2, 10, 3), stopped_because(0, 12, 2), stopped_because(1, 12, 2)},
                          kMesh, {{1, 2}});
  REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::consequence});
  CHECK(story.entries[0].event.end->rank == 2);
  CHECK(to_string(story.entries[1].ranks) == "1");
}

TEST_CASE("why_story: what is no end of a rank may be what all began with") {
  for (const auto kind : {EventKind::owner_gone, EventKind::lease_lapsed, EventKind::stop_asked,
                          EventKind::host_stopping}) {
    const auto story = tell({happened(kind, 9, "it"), stopped_because(0, 12, 2)}, kMesh, {});
    REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::consequence});
    CHECK(story.entries[0].event.kind == kind);
  }
  const auto refused = tell({happened(EventKind::spawn_refused, 9, "no")}, kMesh, {});
  CHECK(roles(refused) == std::vector{StoryRole::first});
  const auto well =
      tell({ended(0, 1, 0), ended(1, 2, 0), happened(EventKind::host_stopping, 3, "shut down", "")},
           kMesh, {});
  CHECK(roles(well) == std::vector{StoryRole::also, StoryRole::around});
}

TEST_CASE("why_story: what a host is told without an effect on the mesh is no first cause") {
  auto drain = happened(EventKind::stop_asked, 5, "a drain of all meshes", "");
  auto elsewhere = drain;
  elsewhere.host = *HostAddr::parse("tcp:h3:7420");
  // A host that the mesh never touched is not in its story.
  auto story = tell({ended(0, 1, 0), elsewhere, ended(1, 10, 3)}, kMesh, {});
  REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::also});
  CHECK(story.entries[0].event.end->rank == 1);
  // Its own host ended others: what the mesh failed of is its own.
  story = tell({ended(0, 1, 0), drain, ended(1, 10, 3)}, kMesh, {});
  CHECK(story.entries[0].event.end->rank == 1);
  // A rank that was stopped because of a failure was not stopped by the drain.
  story = tell({drain, ended(1, 10, 3), stopped_because(0, 12, 1)}, kMesh, {});
  CHECK(story.entries[0].event.end->rank == 1);
  // And it ended a rank of the mesh.
  auto stopped = stopped_because(1, 10, 0);
  stopped.end->because.reset();
  stopped.end->consequence = false;
  story = tell({ended(0, 1, 0), drain, stopped}, kMesh, {});
  CHECK(story.entries[0].event.text == "a drain of all meshes");
}

TEST_CASE("why_story: who dies with its keeper follows from that, whoever writes first") {
  auto lost = ended(0, 10, 0);
  lost.end->state = ProcState::failed;
  lost.end->cause = Cause::keeper_lost;
  lost.end->reason = "keeper lost";
  lost.end->consequence = true;
  const auto told =
      tell({lost, happened(EventKind::role_ended, 11, "the keeper was killed", "")}, kMesh, {});
  REQUIRE(roles(told) == std::vector{StoryRole::first, StoryRole::consequence});
  CHECK(told.entries[0].event.text == "the keeper was killed");
  const auto untold = tell({lost}, kMesh, {});
  CHECK(roles(untold) == std::vector{StoryRole::first});
}

TEST_CASE("why_story: what happened to the host counts while the mesh lived, other meshes never") {
  const auto before = happened(EventKind::role_ended, -10, "the broker was killed", "");
  const auto during = happened(EventKind::role_ended, 5, "the agent was killed", "");
  const auto after = happened(EventKind::role_ended, 100, "the broker was killed", "");
  const auto other = happened(EventKind::owner_gone, 5, "", "train-13Se1Maqzryk");
  const auto story = tell({before, during, other, ended(0, 10, 1), after}, kMesh, {});
  REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::around});
  CHECK(story.entries[1].event.text == during.text);
  CHECK(tell({before}, kMesh, {}).entries.empty());
}

TEST_CASE("why_story: names of procs, and of meshes by the last event") {
  CHECK(parse_proc("train_3-13Se1Maqzryj")->mesh == kMesh);
  CHECK(parse_proc("train_3-13Se1Maqzryj")->rank == 3);
  CHECK(parse_proc("tcp:h1:7420,my_train_12-13Se1Maqzryj")->mesh == "my_train-13Se1Maqzryj");
  for (const char* word : {"", "train", kMesh.c_str(), "_3-13Se1Maqzryj", "train_x-13Se1Maqzryj",
                           "train_3-", "train_3", "3", "train_99999999999999999999-13Se1Maqzryj"})
    CHECK_FALSE(parse_proc(word).has_value());
  CHECK(meshes_in({happened(EventKind::owner_gone, 1, "", "a-1"),
                   happened(EventKind::owner_gone, 2, "", "b-1"),
                   happened(EventKind::owner_gone, 3, "", "a-1"),
                   happened(EventKind::role_ended, 4, "", "")}) ==
        std::vector<std::string>{"a-1", "b-1"});
}

TEST_CASE("why_story: a stop in words says by whom, why and how far it had to go") {
  auto event = stopped_because(1, 12, 2);
  event.end->step = StopStep::kill;
  event.end->signal = 9;
  event.end->reason = "killed by SIGKILL";
  CHECK(words_of(event) == "stopped: rank failed (by me); at once: killed by SIGKILL");
  event.end->cause = Cause::killed_after_grace;
  CHECK(words_of(event) ==
        "stopped: rank failed (by me); it outlived SIGTERM and was killed when its grace was over");
  event.end->cause = Cause::stopped;
  event.end->step = StopStep::asked;
  event.end->reason = "exit 0";
  CHECK(words_of(event) == "stopped: rank failed (by me); asked to end: exit 0");
}

TEST_CASE("why_story: roles of one job have one story, whichever is asked for") {
  const std::string roll = "roll-13Se1Maqzryj";
  auto stop = stopped_because(1, 4, 0);
  stop.end->because = std::nullopt;
  stop.end->consequence = false;
  stop.end->stop_reason = "roll[3] failed: exit 7";
  auto asked = happened(EventKind::stop_asked, 3, "roll[3] failed: exit 7");
  const std::vector<HostEvent> events{of(roll, ended(3, 2, 7)), asked, stop,
                                      of("other-13Se1Maqzryk", ended(0, 1, 9))};
  for (const auto& mesh : {kMesh, roll}) {
    const auto story = tell(events, mesh, {});
    CHECK(story.others == std::vector<std::string>{mesh == roll ? "train" : "roll"});
    REQUIRE(roles(story) == std::vector{StoryRole::first, StoryRole::consequence});
    CHECK(story.entries[0].event.mesh == roll);
    CHECK(story.entries[1].event.mesh == kMesh);
  }
  // A restart in one role mends nothing of another one.
  auto life = ended(3, 1, 0);
  life.end->restarts = 2;
  CHECK(tell({of(roll, ended(3, 2, 7)), life}, kMesh, {}).entries[0].event.mesh == roll);
}

TEST_CASE("why_story: a stop that a role of the same name did not bring is its own cause") {
  auto stop = stopped_because(1, 4, 0);
  stop.end->because = std::nullopt;
  stop.end->consequence = false;
  stop.end->stop_reason = "train is over";
  CHECK(tell({stop}, kMesh, {}).entries[0].role == StoryRole::also);
}

}  // namespace
}  // namespace meshbus::cli
