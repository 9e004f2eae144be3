// Statuses by rank, waiting for them, streams without a gap, and draining: what spec 3.2, 4.1
// and 5.3 promise of a host agent.
#include <doctest/doctest.h>

#include "agent/host/lifecycle/drains.h"
#include "agent/host/updates/rank_waits.h"
#include "common/wire/frame.h"
#include "common/wire/wire_values.h"
#include "tests/integration/agent/harness.h"
#include "wire/bus_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

using State = wire::ProcState;

/// An answer that comes when it comes.
template <typename Answer>
struct Later {
  std::optional<Result<typename Answer::NativeTableType>> answer;

  template <typename Body>
  static std::shared_ptr<Later> ask(AgentHarness& harness, TestLauncher& from, Body body) {
    auto later = std::make_shared<Later>();
    from.bus().request(Destination::to_agent(harness.host()), std::move(body), 30s,
                       [later](const Result<ControlMessage>& got) {
                         if (!got) {
                           later->answer = fail(got.error());
                           return;
                         }
                         const auto* table = got->template body_as<Answer>();
                         REQUIRE(table != nullptr);
                         later->answer.emplace(typename Answer::NativeTableType());
                         table->UnPackTo(&**later->answer);
                       });
    return later;
  }
};

std::string statuses_in(const wire::RankStatusesT& statuses) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::StatusOverlay::Pack(builder, statuses.statuses.get()));
  const auto read =
      from_wire(*flatbuffers::GetRoot<wire::StatusOverlay>(builder.GetBufferPointer()), kBodyLimit);
  REQUIRE(read.has_value());
  return to_string(*read);
}

wire::GetRankStatusT get_status(const std::string& mesh,
                                std::vector<wire::RankInterval> ranks = {}) {
  wire::GetRankStatusT get;
  get.mesh = mesh;
  get.ranks = std::move(ranks);
  return get;
}

wire::WaitRankStatusT wait_rank_status(const TestLauncher& asker, const std::string& mesh,
                                       wire::StatusKind minimum, std::chrono::milliseconds limit,
                                       std::vector<wire::RankInterval> ranks = {}) {
  wire::WaitRankStatusT wait;
  wait.mesh = mesh;
  wait.ranks = std::move(ranks);
  wait.minimum = minimum;
  wait.wait_ms = static_cast<std::uint32_t>(limit.count());
  wait.asker = const_cast<TestLauncher&>(asker).id().to_string();
  return wait;
}

wire::DrainHostT drain_of(const std::string& owner, const std::string& mesh) {
  wire::DrainHostT drain;
  drain.owner = owner;
  drain.mesh = mesh;
  drain.reason = "maintenance";
  drain.requester = "the operator";
  drain.grace_ms = 5000;
  return drain;
}

TEST_CASE("agent: the status of ranks is told by rank, and absence is a status") {
  AgentHarness harness;
  const auto mesh = harness.run_until_up(
      "echo up; [ $RANK = 1 ] && kill -SEGV $$; [ $RANK = 2 ] && exit 3; exec sleep 300", 4);
  harness.wait("the ends", [&] {
    return harness.rank(mesh, 1).exit_report && harness.rank(mesh, 2).exit_report;
  });
  const auto all = harness.ask<wire::RankStatuses>(get_status(mesh));
  REQUIRE(all.has_value());
  CHECK(all->mesh == mesh);
  CHECK(all->host == harness.host().to_string());
  CHECK(statuses_in(*all) == "Running=0..1,3..4;Stopped=2..3;Failed(\"" +
                                 harness.rank(mesh, 1).exit_report->reason + "\")=1..2");
  const auto some = harness.ask<wire::RankStatuses>(
      get_status(mesh, {{2, 3}, {3, 10}, {UINT64_MAX - 1, UINT64_MAX}}));
  REQUIRE(some.has_value());
  CHECK(statuses_in(*some) ==
        "NotExist=4..10,18446744073709551614..18446744073709551615;Running=3..4;Stopped=2..3");
  CHECK(code_of(harness.ask<wire::RankStatuses>(get_status("nobody-13Se1Maqzryj"))) ==
        ErrorCode::not_exist);
  CHECK(statuses_in(*harness.ask<wire::RankStatuses>(
            get_status("nobody-13Se1Maqzryj", {{0, 2}}))) == "NotExist=0..2");
  CHECK(code_of(harness.ask<wire::RankStatuses>(get_status(mesh, {{2, 2}}))) ==
        ErrorCode::out_of_range);
  CHECK(code_of(harness.ask<wire::RankStatuses>(get_status(mesh, {{2, 4}, {3, 5}}))) ==
        ErrorCode::out_of_range);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh, 4);
}

TEST_CASE(
    "agent: who waits for a status is answered when every rank is there or has ended, or at the "
    "deadline with what is") {
  AgentHarness harness;
  const auto request = harness.shell("exec sleep 300", 3);
  const auto mesh = request.mesh;
  auto& launcher = *harness.launcher;
  using Waiting = Later<wire::RankStatuses>;
  // A mesh that does not exist yet is waited for.
  const auto running =
      Waiting::ask(harness, launcher,
                   wait_rank_status(launcher, mesh, wire::StatusKind::running, 20s, {{0, 3}}));
  const auto more =
      Waiting::ask(harness, launcher,
                   wait_rank_status(launcher, mesh, wire::StatusKind::running, 400ms, {{0, 4}}));
  harness.run_for(50ms);
  CHECK_FALSE(running->answer.has_value());
  harness.spawn(wire::SpawnProcsT(request));
  harness.wait("the answer", [&] { return running->answer.has_value(); });
  REQUIRE(running->answer->has_value());
  CHECK(statuses_in(**running->answer) == "Running=0..3");
  harness.wait("the deadline", [&] { return more->answer.has_value(); });
  REQUIRE(more->answer->has_value());
  CHECK(statuses_in(**more->answer) == "NotExist=3..4;Running=0..3");

  // What has been reached is answered at once; wait_ms 0 is a question.
  CHECK(statuses_in(*harness.ask<wire::RankStatuses>(wait_rank_status(
            launcher, mesh, wire::StatusKind::initializing, 20s))) == "Running=0..3");
  CHECK(statuses_in(*harness.ask<wire::RankStatuses>(
            wait_rank_status(launcher, mesh, wire::StatusKind::stopped, 0ms))) == "Running=0..3");

  const auto one =
      Waiting::ask(harness, launcher,
                   wait_rank_status(launcher, mesh, wire::StatusKind::stopped, 20s, {{1, 2}}));
  const auto all = Waiting::ask(harness, launcher,
                                wait_rank_status(launcher, mesh, wire::StatusKind::stopped, 20s));
  // Nobody reaches Failed by being stopped, but nothing comes after that either.
  const auto failed = Waiting::ask(harness, launcher,
                                   wait_rank_status(launcher, mesh, wire::StatusKind::failed, 20s));
  harness.stop(mesh, 5s, {{1, 2}});
  harness.wait("the one", [&] { return one->answer.has_value(); });
  CHECK(statuses_in(**one->answer) == "Stopped=1..2");
  CHECK_FALSE(all->answer.has_value());
  harness.stop(mesh, 5s);
  harness.wait("the others", [&] { return all->answer.has_value() && failed->answer.has_value(); });
  CHECK(statuses_in(**all->answer) == "Stopped=0..3");
  CHECK(statuses_in(**failed->answer) == "Stopped=0..3");

  auto wrong = wait_rank_status(launcher, mesh, wire::StatusKind::unknown, 1s);
  CHECK(code_of(harness.ask<wire::RankStatuses>(wrong)) == ErrorCode::out_of_range);
  wrong.minimum = static_cast<wire::StatusKind>(200);
  CHECK(code_of(harness.ask<wire::RankStatuses>(wrong)) == ErrorCode::out_of_range);
  wrong = wait_rank_status(launcher, mesh, wire::StatusKind::running, 1s);
  wrong.asker = "nobody";
  CHECK(code_of(harness.ask<wire::RankStatuses>(wrong)) == ErrorCode::parse_error);
  wrong.asker = ProcId(harness.host(), *Name::make("client")).to_string();
  CHECK(code_of(harness.ask<wire::RankStatuses>(wrong)) == ErrorCode::identity_mismatch);
}

TEST_CASE("agent: a wait ends with its asker, and there are only so many") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("exec sleep 300");
  harness.wait_state(mesh, State::ready);
  auto asker = harness.make_launcher("client");
  const auto fill = [&](TestLauncher& from) {
    for (std::size_t i = 0; i < host::RankWaits::kMost; ++i) {
      Later<wire::RankStatuses>::ask(harness, from,
                                     wait_rank_status(from, mesh, wire::StatusKind::stopped, 1h));
      // The queue of a launcher has its limit too; and at the end all of them are there.
      if (i % 64 == 63) CHECK(harness.ask<wire::HostState>(from, wire::GetHostT{}).has_value());
    }
  };
  const auto more = [&] {
    return code_of(harness.ask<wire::RankStatuses>(
        wait_rank_status(*harness.launcher, mesh, wire::StatusKind::stopped, 1ms)));
  };
  fill(*asker);
  harness.wait("as many as there may be", [&] { return more() == ErrorCode::queue_full; });
  asker.reset();
  harness.wait("them to be forgotten", [&] { return more() == ErrorCode::none; });
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh);
}

TEST_CASE(
    "agent: whoever subscribes in the middle of it all hears each change once, without a gap") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "8"}}});
  const auto request = harness.command({"/bin/sleep", "0.05"}, 200);
  const auto mesh = request.mesh;
  harness.spawn(wire::SpawnProcsT(request));
  std::vector<std::unique_ptr<TestLauncher>> watchers;
  std::vector<std::shared_ptr<Later<wire::MeshState>>> answers;
  for (int i = 0; i < 5; ++i) {
    watchers.push_back(harness.make_launcher("client"));
    wire::StreamStateT stream;
    stream.mesh = mesh;
    stream.subscriber = watchers.back()->id().to_string();
    answers.push_back(Later<wire::MeshState>::ask(harness, *watchers.back(), stream));
    harness.run_for(7ms);
  }
  // The owner, too, hears each thing once when it subscribes.
  wire::StreamStateT own;
  own.mesh = mesh;
  own.subscriber = harness.launcher->id().to_string();
  CHECK(harness.ask<wire::MeshState>(own).has_value());
  harness.wait_ended(mesh, 200);
  harness.run_for(50ms);
  CHECK(harness.launcher->problems.empty());
  for (std::size_t i = 0; i < watchers.size(); ++i) {
    REQUIRE(answers[i]->answer.has_value());
    REQUIRE(answers[i]->answer->has_value());
    const auto& snapshot = **answers[i]->answer;
    REQUIRE(snapshot.ranks.size() == 200);
    std::set<std::uint64_t> exit_reported;
    for (const auto& exit_report : snapshot.exit_reports) exit_reported.insert(exit_report->rank);
    CHECK(watchers[i]->problems.empty());
    for (const auto& known : snapshot.ranks) {
      auto generation = known.generation();
      auto& heard = watchers[i]->mesh(mesh)[known.rank()];
      for (const auto& state : heard.states) CHECK(state.generation() == ++generation);
      const auto last = heard.states.empty() ? known.state() : heard.state();
      CHECK(last == State::stopped);
      CHECK(exit_reported.contains(known.rank()) != heard.exit_report.has_value());
    }
  }
}

TEST_CASE("agent: spec 6.7: an answer to GetState overtakes no change") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "8"}}});
  const auto request = harness.command({"/bin/sleep", "0.02"}, 400);
  const auto mesh = request.mesh;
  harness.spawn(wire::SpawnProcsT(request));
  std::vector<std::string> overtaken;
  const auto look = [&](const Result<ControlMessage>& answer) {
    const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
    if (state == nullptr) return;
    for (const auto* known : *state->ranks()) {
      const auto& told = harness.launcher->mesh(mesh)[known->rank()].states;
      const auto last = told.empty() ? 0 : told.back().generation();
      if (known->generation() > last)
        overtaken.push_back("rank " + std::to_string(known->rank()) + ": told " +
                            std::to_string(last) + ", answered " +
                            std::to_string(known->generation()));
    }
  };
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 3; ++j)
      harness.launcher->bus().request(Destination::to_agent(harness.host()), get_state(mesh), 30s,
                                      look);
    harness.run_for(2ms);
  }
  harness.wait_ended(mesh, 400);
  CHECK(harness.launcher->problems.empty());
  INFO((overtaken.empty() ? std::string() : overtaken.front()));
  CHECK(overtaken.size() == 0);
}

TEST_CASE("agent: a snapshot that has no room for all exit reports is completed by what follows") {
  AgentHarness harness;
  // Each leaves 8 KiB of last lines: more than fits into one answer.
  const auto mesh = harness.run_shell(
      "i=0; while [ $i -lt 80 ]; do printf '%0100d\\n' $i >&2; i=$((i+1)); done; exit 1", 150);
  harness.wait_ended(mesh, 150);
  const auto state = harness.ask<wire::MeshState>(get_state(mesh));
  REQUIRE(state.has_value());
  CHECK(state->cut > 0);
  std::size_t whole = 0;
  for (const auto& exit_report : state->exit_reports)
    whole += exit_report->stderr_tail.empty() ? 0U : 1U;
  CHECK(whole + state->cut == 150);
  auto watcher = harness.make_launcher("client");
  wire::StreamStateT stream;
  stream.mesh = mesh;
  stream.subscriber = watcher->id().to_string();
  const auto snapshot = harness.ask<wire::MeshState>(*watcher, stream);
  REQUIRE(snapshot.has_value());
  CHECK(snapshot->exit_reports.size() + snapshot->cut == 150);
  harness.wait("the rest", [&] {
    std::size_t told = snapshot->exit_reports.size();
    for (const auto& [rank, known] : watcher->mesh(mesh)) told += known.exit_report ? 1U : 0U;
    return told == 150;
  });
  for (const auto& exit_report : snapshot->exit_reports)
    CHECK(exit_report->stderr_tail.size() == 8080);
  for (const auto& [rank, known] : watcher->mesh(mesh))
    CHECK(known.exit_report->stderr_tail.size() == 8080);
}

TEST_CASE("agent: a list that does not fit into one answer goes on in the next") {
  AgentHarness harness;
  std::set<std::string> expected;
  // A label that takes room in each list entry.
  const std::string label(20'000, 'x');
  for (int i = 0; i < 50; ++i) {
    auto request = harness.command({"/bin/true"});
    request.region->labels = {label};
    expected.insert(harness.spawn(std::move(request)));
  }
  std::set<std::string> listed;
  wire::ListMeshesT question;
  int pages = 0;
  for (bool more = true; more; ++pages) {
    const auto page = harness.ask<wire::MeshList>(wire::ListMeshesT(question));
    REQUIRE(page.has_value());
    CHECK(page->after == question.after);
    for (const auto& mesh : page->meshes) {
      CHECK(listed.insert(mesh->mesh).second);
      CHECK(mesh->mesh > question.after);
      CHECK_FALSE(mesh->ranks.empty());
    }
    more = page->more;
    REQUIRE_FALSE(page->meshes.empty());
    question.after = page->meshes.back()->mesh;
  }
  CHECK(listed == expected);
  CHECK(pages == 2);
}

TEST_CASE(
    "agent: a drain ends its scope and nothing else, refuses what would be started in it, and says "
    "who and why") {
  AgentHarness harness;
  auto other = harness.make_launcher("client");
  const auto deaf = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done", 2);
  const auto good = harness.run_shell("exec sleep 300", 2);
  auto request = harness.shell("exec sleep 300");
  request.owner = other->id().to_string();
  CHECK(harness.ask<wire::SpawnAccepted>(*other, wire::SpawnProcsT(request)).has_value());
  harness.wait_state(good, State::ready, 2);

  auto drain = drain_of("", deaf);
  drain.grace_ms = 600;
  const auto first =
      Later<wire::ShutdownSummary>::ask(harness, *harness.launcher, wire::DrainHostT(drain));
  const auto second = Later<wire::ShutdownSummary>::ask(harness, *other, wire::DrainHostT(drain));
  harness.wait("the drain", [&] { return harness.rank(deaf).state() == State::stopping; });
  const auto seen = harness.ask<wire::HostState>(wire::GetHostT{});
  REQUIRE(seen->drains.size() == 1);
  CHECK(seen->drains[0]->mesh == deaf);
  CHECK(seen->drains[0]->owner == "");
  CHECK(seen->drains[0]->reason == "maintenance");
  CHECK(seen->drains[0]->requester == "the operator");
  CHECK(seen->drains[0]->left == 2);
  CHECK_FALSE(seen->drains[0]->hold);
  // More ranks of that mesh are not started, others are.
  auto more = harness.shell("trap '' TERM; echo up; while :; do sleep 1; done", 2);
  more.mesh = deaf;
  more.region->sizes = {3};
  more.create_ranks = {wire::RankInterval(2, 3)};
  CHECK(code_of(harness.ask<wire::SpawnAccepted>(std::move(more))) == ErrorCode::refused);
  CHECK(harness.ask<wire::SpawnAccepted>(harness.shell("exit 0")).has_value());
  harness.wait("both answers",
               [&] { return first->answer.has_value() && second->answer.has_value(); });
  for (const auto& each : {first, second}) {
    REQUIRE(each->answer->has_value());
    CHECK((**each->answer).attempted == 2);
    CHECK((**each->answer).ok == 2);
    CHECK((**each->answer).failed == 0);
  }
  // The ends were reported before, with the requester and the reason.
  for (const std::uint64_t rank : {0U, 1U}) {
    CHECK(harness.rank(deaf, rank).state() == State::stopped);
    REQUIRE(harness.rank(deaf, rank).exit_report.has_value());
    CHECK(harness.rank(deaf, rank).exit_report->stopped_by == "the operator");
    CHECK(harness.rank(deaf, rank).exit_report->stop_reason == "maintenance");
  }
  CHECK(harness.rank(good).state() == State::ready);
  CHECK(harness.agent().live() == 3);
  CHECK(harness.ask<wire::HostState>(wire::GetHostT{})->drains.empty());

  // A drain of one owner: the other owner's procs live on, and it may spawn more.
  auto owned = drain_of(harness.launcher->id().to_string(), "");
  owned.hold = true;
  CHECK(harness.ask<wire::ShutdownSummary>(wire::DrainHostT(owned))->attempted == 2);
  CHECK(harness.agent().live() == 1);
  const auto refused = harness.ask<wire::SpawnAccepted>(harness.shell("exit 0"));
  CHECK(code_of(refused) == ErrorCode::refused);
  CHECK(refused.error().detail().find(
            "kept drained of the meshes of " + harness.launcher->id().to_string() +
            ", asked for by the operator: maintenance") != std::string::npos);
  request.create_ranks.clear();
  auto theirs_again = harness.shell("exit 0");
  theirs_again.owner = other->id().to_string();
  CHECK(harness.ask<wire::SpawnAccepted>(*other, std::move(theirs_again)).has_value());

  // A drain of everything is idempotent; after the resume the host starts procs again.
  CHECK(harness.ask<wire::ShutdownSummary>(drain_of("", ""))->failed == 0);
  CHECK(harness.agent().live() == 0);
  CHECK(harness.ask<wire::ShutdownSummary>(drain_of("", ""))->attempted == 0);
  CHECK(code_of(harness.ask<wire::SpawnAccepted>(harness.shell("exit 0"))) == ErrorCode::refused);
  wire::ResumeHostT resume;
  resume.owner = owned.owner;
  CHECK(harness.ask<wire::Ack>(wire::ResumeHostT(resume)).has_value());
  CHECK(harness.ask<wire::Ack>(wire::ResumeHostT(resume)).has_value());
  const auto after = harness.run_shell("exit 0");
  harness.wait_ended(after);
  CHECK_FALSE(harness.shut_down.has_value());
}

TEST_CASE("agent: a drain of a mesh that is being started leaves none of it") {
  AgentHarness harness({.settings = {{"spawn.in_flight", "2"}}});
  auto request = harness.shell("exec sleep 300", 50);
  const auto mesh = request.mesh;
  harness.launcher->bus().request(Destination::to_agent(harness.host()), std::move(request), 30s,
                                  [](const Result<ControlMessage>&) {});
  const auto summary = harness.ask<wire::ShutdownSummary>(drain_of("", mesh));
  REQUIRE(summary.has_value());
  CHECK(summary->attempted == 50);
  CHECK(summary->ok == 50);
  CHECK(harness.agent().live() == 0);
  harness.wait_ended(mesh, 50);
  // Each change of each rank had a generation of its own, and was told.
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    std::uint64_t generation = 0;
    for (const auto& state : rank.states) CHECK(state.generation() == ++generation);
  }
}

TEST_CASE("agent: what is no scope is refused, and drains have a limit") {
  AgentHarness harness;
  CHECK(code_of(harness.ask<wire::ShutdownSummary>(drain_of("nobody", ""))) ==
        ErrorCode::parse_error);
  CHECK(code_of(harness.ask<wire::ShutdownSummary>(drain_of("", "not a name"))) ==
        ErrorCode::parse_error);
  auto drain = drain_of("", "");
  drain.in_flight = 257;
  CHECK(code_of(harness.ask<wire::ShutdownSummary>(drain)) == ErrorCode::out_of_range);
  wire::ResumeHostT resume;
  resume.mesh = "not a name";
  CHECK(code_of(harness.ask<wire::Ack>(wire::ResumeHostT(resume))) == ErrorCode::parse_error);
  ErrorCode last = ErrorCode::none;
  for (std::size_t i = 0; i <= host::Drains::kMost; ++i) {
    auto held = drain_of("", Name::make("m")->to_string());
    held.hold = true;
    last = code_of(harness.ask<wire::ShutdownSummary>(held));
    if (i < host::Drains::kMost) REQUIRE(last == ErrorCode::none);
  }
  CHECK(last == ErrorCode::queue_full);
  const auto fine = harness.run_shell("exit 0");
  harness.wait_ended(fine);
}

TEST_CASE("agent: a drain in the middle of a shutdown, and after it, is answered") {
  AgentHarness harness;
  const auto mesh = harness.run_until_up("trap '' TERM; echo up; while :; do sleep 1; done", 2);
  wire::ShutdownHostT shutdown;
  shutdown.grace_ms = 400;
  shutdown.requester = "the operator";
  const auto ending =
      Later<wire::ShutdownSummary>::ask(harness, *harness.launcher, wire::ShutdownHostT(shutdown));
  CHECK(harness.ask<wire::ShutdownSummary>(drain_of("", ""))->failed == 0);
  harness.wait("the shutdown", [&] { return ending->answer.has_value(); });
  CHECK((**ending->answer).attempted == 2);
  CHECK((**ending->answer).ok == 2);
  CHECK(harness.rank(mesh).exit_report->stopped_by == "the operator");
  CHECK(harness.ask<wire::ShutdownSummary>(drain_of("", ""))->attempted == 0);
  CHECK(harness.ask<wire::RankStatuses>(get_status(mesh)).has_value());
  CHECK(code_of(harness.ask<wire::SpawnAccepted>(harness.shell("exit 0"))) == ErrorCode::refused);
}

}  // namespace
}  // namespace meshbus::test
