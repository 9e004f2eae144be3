#include "client/src/monitors/restart_judge.h"

#include <algorithm>

namespace meshbus {
namespace {

/// How long until the next look at an exit report that has not come.
constexpr std::chrono::seconds kLookAgain{1};

}  // namespace

void RestartJudge::take(RankTable& table, Restarter::Actions actions, Judgement& judgement) {
  for (auto& decision : actions.decided) {
    for (const auto rank : decision.ranks) table.set_restarting(rank, true);
    judgement.restarts.push_back({.cause = table.rank(decision.cause),
                                  .ranks = to_rank_set(decision.ranks),
                                  .restart = decision.restart,
                                  .budget = budget_,
                                  .delay = decision.delay});
    if (!decision.to_stop.empty())
      judgement.stops.emplace_back(std::move(decision.to_stop), table.rank(decision.cause));
  }
  judgement.starts.insert(judgement.starts.end(), actions.starts.begin(), actions.starts.end());
  given_up_.insert(given_up_.end(), actions.given_up.begin(), actions.given_up.end());
}

void RestartJudge::note_left_behind(RankTable& table, std::uint64_t rank) const {
  if (restarter_.is_waiting(rank)) table.set_restarting(rank, true);
}

RestartJudge::Judgement RestartJudge::judge(RankTable& table,
                                            const std::vector<RankReport>& failures, Time now) {
  Judgement judgement;
  for (const auto& failure : failures) {
    not_over_.insert(failure.rank);
    take(table, restarter_.on_end(failure, now), judgement);
    note_left_behind(table, failure.rank);
  }
  for (const auto rank : std::exchange(unjudged_, {})) {
    not_over_.insert(rank);
    take(table, restarter_.on_end(table.rank(rank), now), judgement);
    note_left_behind(table, rank);
  }
  std::erase_if(not_over_, [&](std::uint64_t rank) {
    if (!table.is_over(rank, now)) return false;
    restarter_.on_over(rank);
    return true;
  });
  take(table, restarter_.turn(now), judgement);
  // A rank that is given up takes its gang with it.
  for (std::uint64_t rank = 0; !given_up_.empty() && rank < table.size(); ++rank)
    table.set_restarting(rank, restarter_.is_waiting(rank));
  for (const auto rank : std::exchange(given_up_, {})) {
    table.decide(rank);
    judgement.failures.push_back(table.rank(rank));
  }
  for (const auto rank : judgement.starts) table.begin_incarnation(rank);
  return judgement;
}

void RestartJudge::stop(RankTable& table, const RankSet& ranks) {
  const auto actions = restarter_.stop(ranks);
  given_up_.insert(given_up_.end(), actions.given_up.begin(), actions.given_up.end());
  for (std::uint64_t rank = 0; rank < table.size(); ++rank) {
    if (ranks.empty() || contains(ranks, rank)) table.set_restarting(rank, false);
  }
}

void RestartJudge::resize(std::uint64_t ranks) {
  restarter_.resize(ranks);
  unjudged_.erase(unjudged_.lower_bound(ranks), unjudged_.end());
  not_over_.erase(not_over_.lower_bound(ranks), not_over_.end());
  std::erase_if(given_up_, [ranks](std::uint64_t rank) { return rank >= ranks; });
}

std::optional<RestartJudge::Time> RestartJudge::next_due(Time now) const {
  auto next = restarter_.next_due();
  if (restarter_.is_busy() && !not_over_.empty())
    next = std::min(next.value_or(now + kLookAgain), now + kLookAgain);
  return next;
}

}  // namespace meshbus
