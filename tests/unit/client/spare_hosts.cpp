// Which spare takes the place of which lost host, and when (spec 18.1).
#include "client/src/restart/spare_hosts.h"

#include <doctest/doctest.h>

#include "client/src/monitors/restart_judge.h"
#include "wire/supervision_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

using Pairs = std::vector<SpareHosts::Pair>;
using Ranks = std::vector<std::uint64_t>;
const HostAddr kLost = *HostAddr::parse("unix:/a");
const HostAddr kGone = *HostAddr::parse("unix:/b");
const HostAddr kFirstSpare = *HostAddr::parse("unix:/s");
const HostAddr kNextSpare = *HostAddr::parse("unix:/t");
constexpr SpareHosts::Time kLossTime{1000s};

/// Two ranks on each of two hosts, of which some are lost, and two spares.
struct Moving {
  explicit Moving(std::vector<HostAddr> spares = {kFirstSpare, kNextSpare},
                  std::optional<std::chrono::milliseconds> silence = 20s) {
    judge.set_spares(SpareHosts(std::move(spares), silence));
    table.set_judged();
  }
  /// What follows from the loss, 400 ms later.
  RestartJudge::Judgement lose(const HostAddr& host, bool is_proved) {
    for (std::uint64_t index = 0; index < 2; ++index) {
      if (mesh.hosts()[index] == host) table.lose(index, "host lost: cut off", now, {});
    }
    judge.lose_host(table, host, "cut off", is_proved, now);
    return look(400ms);
  }
  /// The host itself tells that its ranks are dead.
  void tell_dead(const HostAddr& host) {
    for (std::uint64_t rank = 0; rank < 2; ++rank) {
      table.apply(host,
                  wire::RankState(rank, 2, 1, 0, 0, 100, 0, wire::ProcState::failed, 0, false,
                                  wire::StopStep::none, 0),
                  now);
      wire::ExitReportT native;
      native.rank = rank;
      native.code = wire::ErrorCode::internal;
      native.cause = wire::Cause::host_lost;
      flatbuffers::FlatBufferBuilder builder;
      builder.Finish(wire::ExitReport::Pack(builder, &native));
      table.apply(host, *flatbuffers::GetRoot<wire::ExitReport>(builder.GetBufferPointer()));
    }
  }
  RestartJudge::Judgement look(std::chrono::milliseconds later = {}) {
    now += later;
    auto judgement = judge.judge(table, table.take_failures(now), now);
    for (const auto& question : judgement.questions) questions.push_back(question);
    return judgement;
  }
  /// Does what RankMoves does with it.
  void carry_out(const RestartJudge::Move& move) {
    auto hosts = mesh.hosts();
    for (auto& host : hosts) host = host == move.place ? move.to : host;
    mesh = *ProcMeshRef::make(mesh.mesh(), hosts, mesh.region().extent());
    table.replace_hosts(mesh);
    judge.spares().place(move.place);
    for (const auto rank : move.ranks) table.move_in(rank);
  }

  ProcMeshRef mesh = *ProcMeshRef::make(*Name::make("m", 1), {kLost, kGone},
                                        *Extent::make({{"host", 2}, {"gpu", 2}}));
  RankTable table{mesh};
  RestartJudge judge{
      {.on = RestartPolicy::On::failure, .budget = 1, .delay = 1s, .jitter = 0}, 4, 1};
  SpareHosts::Time now = kLossTime;
  Pairs questions;
};

}  // namespace

TEST_CASE("spare_hosts: a host whose end is proved is left at once, a silent one after its lease") {
  SpareHosts spares({kFirstSpare}, 20s);
  CHECK(spares.clear_at(kLost) < kLossTime);
  spares.lose(kLost, "cut off", /*is_proved=*/false, kLossTime);
  CHECK(spares.clear_at(kLost) == kLossTime + 20s);
  // What is heard of it later moves nothing back, and proof is proof.
  spares.lose(kLost, "cut off again", /*is_proved=*/false, kLossTime + 5s);
  CHECK(spares.clear_at(kLost) == kLossTime + 20s);
  CHECK(spares.reason_of(kLost) == "cut off");
  spares.lose(kLost, "it was killed", /*is_proved=*/true, kLossTime + 6s);
  CHECK(spares.clear_at(kLost) == kLossTime + 6s);
  SpareHosts endless({kFirstSpare}, std::nullopt);
  endless.lose(kLost, "cut off", /*is_proved=*/false, kLossTime);
  CHECK(endless.clear_at(kLost) == SpareHosts::Time::max());
}

TEST_CASE("spare_hosts: each lost host whose ranks move gets a spare of its own") {
  SpareHosts spares({kFirstSpare, kNextSpare}, 20s);
  for (const auto& host : {kLost, kGone}) spares.lose(host, "gone", /*is_proved=*/true, kLossTime);
  CHECK(spares.take_questions().empty());
  spares.want(kGone);
  CHECK(spares.take_questions() == Pairs{{kGone, kFirstSpare}});
  CHECK(spares.take_questions().empty());
  CHECK_FALSE(spares.spare_for(kGone).has_value());
  spares.confirm({kGone, kFirstSpare});
  CHECK(spares.spare_for(kGone) == kFirstSpare);
  spares.want(kLost);
  CHECK(spares.take_questions() == Pairs{{kLost, kNextSpare}});
  // The one that cannot take ranks is not asked again, nor is the one that is taken.
  spares.reject({kLost, kNextSpare});
  CHECK(spares.take_questions().empty());
  CHECK_FALSE(spares.has_hope(kLost));
  CHECK(spares.has_hope(kGone));
}

TEST_CASE("spare_hosts: a spare that is lost before ranks have moved there is replaced") {
  SpareHosts spares({kFirstSpare, kNextSpare}, 20s);
  spares.lose(kLost, "gone", /*is_proved=*/true, kLossTime);
  spares.want(kLost);
  CHECK(spares.take_questions().size() == 1);
  spares.confirm({kLost, kFirstSpare});
  spares.lose(kFirstSpare, "gone, too", /*is_proved=*/true, kLossTime);
  CHECK_FALSE(spares.spare_for(kLost).has_value());
  CHECK(spares.take_questions() == Pairs{{kLost, kNextSpare}});
  // An answer that comes late is for nobody.
  spares.confirm({kLost, kFirstSpare});
  CHECK_FALSE(spares.spare_for(kLost).has_value());
}

TEST_CASE("restart_judge: ranks of a lost host move together, on no budget") {
  Moving world;
  const auto first = world.lose(kGone, /*is_proved=*/true);
  REQUIRE(first.restarts.size() == 1);
  CHECK(first.restarts[0].is_move);
  CHECK(first.restarts[0].ranks == RankSet{{2, 4}});
  CHECK(first.restarts[0].delay == 0ms);
  CHECK(first.failures.empty());
  CHECK(first.moves.empty());
  CHECK(world.questions == Pairs{{kGone, kFirstSpare}});
  world.judge.spares().confirm({kGone, kFirstSpare});
  const auto next = world.look();
  CHECK(next.starts.empty());
  REQUIRE(next.moves.size() == 1);
  CHECK(next.moves[0].from == kGone);
  CHECK(next.moves[0].place == kGone);
  CHECK(next.moves[0].to == kFirstSpare);
  CHECK(next.moves[0].ranks == Ranks{2, 3});
  CHECK(next.moves[0].reason == "cut off");
  world.carry_out(next.moves[0]);
  CHECK(world.table.rank(2).host == kFirstSpare);
  CHECK(world.table.rank(2).host_index == 1);
  CHECK(world.table.rank(2).restarts == 1);
  CHECK(world.table.outcome().former_lives.at(0).host == kGone);
  CHECK_FALSE(world.judge.is_busy());
  // The budget of one restart is all there: the spare is lost, and the next one takes them.
  const auto again = world.lose(kFirstSpare, /*is_proved=*/true);
  CHECK(again.failures.empty());
  CHECK(world.questions.back() == SpareHosts::Pair{kFirstSpare, kNextSpare});
  world.judge.spares().confirm({kFirstSpare, kNextSpare});
  const auto last = world.look();
  REQUIRE(last.moves.size() == 1);
  CHECK(last.moves[0].ranks == Ranks{2, 3});
  world.carry_out(last.moves[0]);
  // Now no spare is left.
  const auto over = world.lose(kNextSpare, /*is_proved=*/true);
  CHECK(over.restarts.empty());
  REQUIRE(over.failures.size() == 2);
  CHECK(over.failures[0].cause == Cause::host_lost);
}

TEST_CASE("restart_judge: ranks of a silent host move when nothing can run there any more") {
  Moving world;
  const auto first = world.lose(kLost, /*is_proved=*/false);
  REQUIRE(first.restarts.size() == 1);
  CHECK(first.restarts[0].delay == 19'600ms);
  world.judge.spares().confirm({kLost, kFirstSpare});
  CHECK(world.look().moves.empty());
  CHECK(world.look(19s).moves.empty());
  SUBCASE("its lease is over") {
    CHECK(world.look(600ms).moves.size() == 1);
  }
  SUBCASE("its end is proved meanwhile") {
    world.judge.lose_host(world.table, kLost, "it was killed", /*is_proved=*/true, world.now);
    CHECK(world.look().moves.size() == 1);
  }
  SUBCASE("the only spares are lost before") {
    for (const auto& spare : {kFirstSpare, kNextSpare})
      world.judge.lose_host(world.table, spare, "no power", /*is_proved=*/true, world.now);
    const auto over = world.look();
    REQUIRE(over.failures.size() == 2);
    CHECK(over.failures[0].reason == "host lost: cut off; no spare host is left");
    CHECK_FALSE(world.judge.is_busy());
  }
  SUBCASE("they are stopped before") {
    world.judge.stop(world.table, {});
    CHECK(world.look().failures.size() == 2);
    CHECK(world.look(600ms).moves.empty());
  }
}

TEST_CASE("restart_judge: ranks whose own host says that they are dead wait for no lease") {
  Moving world;
  world.tell_dead(kLost);
  const auto first = world.look(400ms);
  REQUIRE(first.restarts.size() == 1);
  CHECK(first.restarts[0].is_move);
  CHECK(first.restarts[0].delay == 0ms);
  world.judge.spares().confirm({kLost, kFirstSpare});
  const auto next = world.look();
  REQUIRE(next.moves.size() == 1);
  CHECK(next.moves[0].ranks == Ranks{0, 1});
}

TEST_CASE("restart_judge: without a spare a lost host is the failure of its ranks") {
  Moving world(std::vector<HostAddr>{});
  const auto over = world.lose(kLost, /*is_proved=*/true);
  CHECK(over.restarts.empty());
  CHECK(over.failures.size() == 2);
  CHECK(world.questions.empty());
}
