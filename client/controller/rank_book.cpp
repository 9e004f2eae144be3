#include "client/controller/rank_book.h"

#include <algorithm>
#include <utility>

#include "client/controller/watch_event.h"

namespace meshbus {

void RankBook::set_state(Rank& rank, const wire::RankState& state) {
  const bool is_live = !is_terminal(state.state());
  if (std::exchange(rank.is_live, is_live) != is_live) {
    auto& live_here = live_on_[rank.host];
    live_ = is_live ? live_ + 1 : live_ - 1;
    live_here = is_live ? live_here + 1 : live_here - 1;
  }
  rank.state = state;
  if (is_failure(state)) ++failed_;
}

RankBook::Change RankBook::take(const HostAddr& host, const wire::RankState& state) {
  const auto past = past_.find(state.rank());
  const bool is_past = past != past_.end() && past->second.contains(state.incarnation());
  const auto found = ranks_.find(state.rank());
  if (found == ranks_.end()) {
    if (is_past) return Change::none;
    if (past == past_.end()) ++seen_;
    auto& rank = ranks_[state.rank()];
    rank.host = &host;
    set_state(rank, state);
    return Change::first;
  }
  auto& rank = found->second;
  // Where a rank lies changes with the layout only (move()): another host that claims it is wrong.
  if (is_past || rank.host != &host) return Change::none;
  if (state.incarnation() != rank.state.incarnation()) {
    past_[state.rank()].insert(rank.state.incarnation());
    if (is_failure(rank.state)) --failed_;
    rank.exit_report.reset();
    set_state(rank, state);
    return Change::incarnation;
  }
  if (state.generation() <= rank.state.generation() || !rank.is_live) return Change::none;
  set_state(rank, state);
  return Change::state;
}

void RankBook::add_exit_report(const HostAddr& host,
                               const std::shared_ptr<const wire::ExitReportT>& exit_report) {
  const auto found = ranks_.find(exit_report->rank);
  if (found == ranks_.end() || found->second.host != &host) return;
  auto& rank = found->second;
  if (!rank.is_live && rank.exit_report == nullptr) rank.exit_report = exit_report;
}

const RankBook::Rank& RankBook::lose(std::uint64_t number,
                                     std::shared_ptr<const wire::ExitReportT> exit_report,
                                     wire::ProcState as) {
  auto& rank = ranks_.at(number);
  auto state = rank.state;
  state.mutate_generation(state.generation() + 1);
  state.mutate_state(as);
  rank.exit_report = std::move(exit_report);
  set_state(rank, state);
  return rank;
}

void RankBook::move(std::uint64_t number, const HostAddr& host) {
  ranks_.at(number).host = &host;
}

void RankBook::forget(std::uint64_t number) {
  const auto found = ranks_.find(number);
  past_[number].insert(found->second.state.incarnation());
  ranks_.erase(found);
}

void RankBook::drop(std::uint64_t number) {
  const auto found = ranks_.find(number);
  if (found == ranks_.end()) return;
  if (is_failure(found->second.state)) --failed_;
  forget(number);
}

const RankBook::Rank* RankBook::find(std::uint64_t rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : &found->second;
}

std::vector<std::uint64_t> RankBook::others_on(const HostAddr& host,
                                               const std::set<std::uint64_t>& those,
                                               bool is_live) const {
  std::vector<std::uint64_t> others;
  if (is_live && live_on(host) == 0) return others;
  for (const auto& [number, rank] : ranks_) {
    if (rank.host == &host && rank.is_live == is_live && !those.contains(number))
      others.push_back(number);
  }
  return others;
}

std::uint64_t RankBook::live_on(const HostAddr& host) const {
  const auto found = live_on_.find(&host);
  return found == live_on_.end() ? 0 : found->second;
}

}  // namespace meshbus
