#include "client/src/monitors/restart_judge.h"

#include <algorithm>
#include <map>

#include "client/src/base/given_up.h"
#include "meshbus/context.h"

namespace meshbus {
namespace {

/// How long until the next look at an exit report that has not come.
constexpr std::chrono::seconds kLookAgain{1};
constexpr const char* kNoSpare = "; no spare host is left";

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
  const auto others = judge_losses(table, failures, now, judgement);
  for (const auto& failure : spares_ ? others : failures) {
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
    if (!table.is_over(rank, now) || !has_place(table, rank, now)) return false;
    restarter_.on_over(rank);
    return true;
  });
  give_up_hopeless(table, judgement);
  if (spares_) judgement.questions = spares_->take_questions();
  take(table, restarter_.turn(now), judgement);
  // A rank that is given up takes its gang with it.
  for (std::uint64_t rank = 0; !given_up_.empty() && rank < table.size(); ++rank)
    table.set_restarting(rank, restarter_.is_waiting(rank));
  for (const auto rank : std::exchange(given_up_, {})) {
    table.decide(rank);
    judgement.failures.push_back(table.rank(rank));
  }
  begin(table, judgement);
  return judgement;
}

void RestartJudge::begin(RankTable& table, Judgement& judgement) {
  std::vector<std::uint64_t> here;
  for (const auto rank : judgement.starts) {
    const auto from = table.rank(rank).host;
    const auto home = table.home_of(rank);
    const auto spare = spares_ ? spares_->spare_for(home) : std::nullopt;
    table.begin_incarnation(rank);
    const auto to = spare.value_or(home);
    if (to == from) {
      here.push_back(rank);
      continue;
    }
    auto& moves = judgement.moves;
    const auto known = std::find_if(moves.begin(), moves.end(), [&](const Move& move) {
      return move.from == from && move.place == home && move.to == to;
    });
    if (known != moves.end()) {
      known->ranks.push_back(rank);
    } else {
      moves.push_back({.from = from,
                       .place = home,
                       .to = to,
                       .reason = spares_->reason_of(from),
                       .ranks = {rank}});
    }
  }
  judgement.starts = std::move(here);
}

void RestartJudge::lose_host(const RankTable& table, const HostAddr& host,
                             const std::string& reason, bool is_proved, Time now) {
  if (!spares_) return;
  spares_->lose(host, reason, is_proved, now);
  for (std::uint64_t rank = 0; rank < table.size(); ++rank) {
    if (!restarter_.is_waiting(rank) || table.home_of(rank) != host) continue;
    // It was to be restarted here, and has to move.
    restarter_.hold(rank);
    not_over_.insert(rank);
    spares_->want(host);
  }
}

bool RestartJudge::can_move(RankTable& table, const RankReport& end) const {
  const bool is_of_host = end.cause == Cause::host_lost || end.cause == Cause::host_ended ||
                          end.cause == Cause::keeper_lost;
  if (!is_of_host) return false;
  if (spares_->has_hope(table.home_of(end.rank))) return true;
  table.add_reason(end.rank, kNoSpare);
  return false;
}

std::vector<RankReport> RestartJudge::judge_losses(RankTable& table,
                                                   const std::vector<RankReport>& failures,
                                                   Time now, Judgement& judgement) {
  std::vector<RankReport> others;
  if (!spares_) return others;
  std::map<HostAddr, std::vector<std::uint64_t>> moving;
  for (const auto& failure : failures) {
    if (!can_move(table, failure) || !restarter_.on_lost(failure, now)) {
      others.push_back(failure);
      continue;
    }
    const auto& home = table.home_of(failure.rank);
    if (!spares_->is_lost(home)) spares_->lose(home, failure.reason, /*is_proved=*/false, now);
    spares_->want(home);
    not_over_.insert(failure.rank);
    table.set_restarting(failure.rank, true);
    moving[home].push_back(failure.rank);
  }
  for (const auto& [host, ranks] : moving) {
    const auto& cause = table.rank(ranks.front());
    const auto clear_at = spares_->clear_at(host);
    const bool is_reported = !is_given_up(cause);
    auto delay = std::chrono::milliseconds(0);
    if (!is_reported && clear_at == Time::max())
      delay = forever;
    else if (!is_reported && clear_at > now)
      delay = std::chrono::ceil<std::chrono::milliseconds>(clear_at - now);
    judgement.restarts.push_back({.cause = cause,
                                  .ranks = to_rank_set(ranks),
                                  .restart = 0,
                                  .budget = budget_,
                                  .delay = delay,
                                  .is_move = true});
  }
  return others;
}

bool RestartJudge::has_place(const RankTable& table, std::uint64_t rank, Time now) const {
  if (!spares_ || !restarter_.is_waiting(rank)) return true;
  const auto& end = table.rank(rank);
  // Nobody else says that it has ended.
  if (is_given_up(end) && now < spares_->clear_at(end.host)) return false;
  const auto& home = table.home_of(rank);
  return !spares_->is_lost(home) || spares_->spare_for(home).has_value();
}

void RestartJudge::give_up_hopeless(RankTable& table, Judgement& judgement) {
  if (!spares_) return;
  std::vector<std::uint64_t> hopeless;
  for (const auto rank : not_over_) {
    const auto& home = table.home_of(rank);
    if (restarter_.is_waiting(rank) && spares_->is_lost(home) && !spares_->has_hope(home))
      hopeless.push_back(rank);
  }
  if (hopeless.empty()) return;
  for (const auto rank : hopeless) table.add_reason(rank, kNoSpare);
  take(table, restarter_.stop(to_rank_set(hopeless)), judgement);
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

std::optional<RestartJudge::Time> RestartJudge::next_due(const RankTable& table, Time now) const {
  auto next = restarter_.next_due();
  for (const auto rank : not_over_) {
    if (!spares_ || !restarter_.is_waiting(rank)) continue;
    const auto clear_at = spares_->clear_at(table.rank(rank).host);
    if (clear_at > now && clear_at != Time::max())
      next = std::min(next.value_or(clear_at), clear_at);
  }
  if (restarter_.is_busy() && !not_over_.empty())
    next = std::min(next.value_or(now + kLookAgain), now + kLookAgain);
  return next;
}

}  // namespace meshbus
