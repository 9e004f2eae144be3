#include "client/src/restart/restarter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace meshbus {

Restarter::Restarter(RestartPolicy policy, std::uint64_t ranks, std::uint64_t seed)
    : policy_(std::move(policy)),
      ranks_(ranks),
      random_(static_cast<std::minstd_rand::result_type>(seed ^ (seed >> 32))) {}

Restarter::Restarter(const RestartPlan& plan, std::uint64_t ranks, std::uint64_t seed)
    : Restarter(plan.policy, ranks, seed) {
  for (const auto& [rank, restarts] : plan.begun) {
    if (rank < ranks) left_.emplace(rank, restarts);
  }
  begun_ = left_;
  for (const auto& used : plan.used) {
    if (used.rank >= ranks) continue;
    auto& account = accounts_[used.rank];
    account.spent.assign(used.spent.begin(), used.spent.end());
    account.all = used.all;
    account.in_a_row = used.in_a_row;
  }
}

RestartPlan Restarter::plan(Time now) const {
  auto accounts = accounts_;
  for (const auto& group : groups_) {
    auto& account = accounts[account_of(group.cause)];
    for (const auto charged : group.charged) {
      const auto found = std::find(account.spent.begin(), account.spent.end(), charged);
      if (found != account.spent.end()) account.spent.erase(found);
      if (account.all != 0) --account.all;
      if (account.in_a_row != 0) --account.in_a_row;
    }
  }
  RestartPlan plan{.policy = policy_};
  plan.begun = begun_;
  for (const auto& [rank, account] : accounts) {
    if (account.all == 0) continue;
    RestartUsage usage{.rank = rank, .all = account.all, .in_a_row = account.in_a_row};
    for (const auto spent : account.spent) {
      if (policy_.window.count() == 0 || now - spent < policy_.window) usage.spent.push_back(spent);
    }
    plan.used.push_back(std::move(usage));
  }
  return plan;
}

Restarter::Actions Restarter::resume(const std::vector<RankReport>& ends, Time now) {
  if (ends.empty()) return {};
  Group group{.cause = ends.front().rank, .ranks = {}, .due = now};
  for (const auto& end : ends) {
    group.ranks.insert(end.rank);
    auto& rank = ranks_[end.rank];
    rank.has_ended = true;
    rank.is_over = true;
    rank.restarts = end.restarts;
  }
  group.restart = std::max<std::uint64_t>(accounts_[account_of(group.cause)].all, 1);
  groups_.push_back(std::move(group));
  return turn(now);
}

bool Restarter::is_beyond_restart(const RankReport& end) {
  switch (end.cause) {
    // It would only happen again.
    case Cause::exec_failed:
    case Cause::spawn_failed:
    // It is not known to be over, or no host is left that could restart it.
    case Cause::host_lost:
    case Cause::keeper_lost:
    case Cause::host_ended:
    case Cause::lost:
    case Cause::unkillable: return true;
    default: return false;
  }
}

bool Restarter::is_hopeless(const RankReport& end) {
  return is_beyond_restart(end) || end.consequence;
}

bool Restarter::is_left_behind(const RankReport& end) const {
  const auto begun = left_.find(end.rank);
  return begun != left_.end() && end.restarts < begun->second && !is_beyond_restart(end);
}

bool Restarter::counts(const RankReport& end) const {
  if (policy_.on == RestartPolicy::On::never || end.step != StopStep::none || is_hopeless(end))
    return false;
  if (!end.is_failure() && policy_.on != RestartPolicy::On::always) return false;
  return policy_.codes.empty() || std::find(policy_.codes.begin(), policy_.codes.end(),
                                            end.shell_code()) != policy_.codes.end();
}

std::set<std::uint64_t> Restarter::gang_of(std::uint64_t rank) const {
  std::set<std::uint64_t> gang{rank};
  if (policy_.gang == Gang::one) return gang;
  for (std::uint64_t other = policy_.gang == Gang::all ? 0 : rank; other < ranks_.size(); ++other) {
    if (!ranks_[other].is_out) gang.insert(other);
  }
  return gang;
}

Restarter::Group* Restarter::find_group(std::uint64_t rank) {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [rank](const Group& group) {
    return group.ranks.contains(rank);
  });
  return found == groups_.end() ? nullptr : &*found;
}

bool Restarter::is_waiting(std::uint64_t rank) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [rank](const Group& group) { return group.ranks.contains(rank); });
}

void Restarter::give_up(std::uint64_t rank, Actions& actions) {
  ranks_[rank].is_out = true;
  if (ranks_[rank].has_failed) actions.given_up.push_back(rank);
}

void Restarter::drop_group(const Group& group, Actions& actions) {
  // It first: the others may have failed because of it.
  give_up(group.cause, actions);
  for (const auto rank : group.ranks) {
    if (rank != group.cause && ranks_[rank].has_ended) give_up(rank, actions);
  }
}

Restarter::Actions Restarter::on_end(const RankReport& end, Time now) {
  Actions actions;
  auto& rank = ranks_[end.rank];
  rank.has_ended = true;
  rank.has_failed = end.is_failure();
  rank.restarts = end.restarts;
  if (const auto* group = find_group(end.rank)) {
    if (!is_hopeless(end) || !rank.has_failed) return actions;
    // What cannot come back keeps the others from it.
    give_up(end.rank, actions);
    auto dropped = *group;
    dropped.ranks.erase(end.rank);
    groups_.erase(groups_.begin() + (group - &groups_.front()));
    if (dropped.cause != end.rank) {
      drop_group(dropped, actions);
    } else {
      for (const auto other : dropped.ranks) {
        if (ranks_[other].has_ended) give_up(other, actions);
      }
    }
    return actions;
  }
  if (!rank.is_out && is_left_behind(end)) {
    // Its restart is charged already. One that has failed since then is another one.
    groups_.push_back({.cause = end.rank, .ranks = {end.rank}, .restart = 0, .due = now});
    return actions;
  }
  if (rank.is_out || !counts(end)) {
    // A rank that is done may still be restarted with its gang.
    const bool is_done = !rank.has_failed && end.step == StopStep::none;
    if (!is_done) give_up(end.rank, actions);
    return actions;
  }
  decide(end.rank, now, actions);
  return actions;
}

bool Restarter::on_lost(const RankReport& end, Time now) {
  auto& rank = ranks_[end.rank];
  rank.has_ended = true;
  rank.has_failed = end.is_failure();
  rank.is_over = false;
  rank.restarts = end.restarts;
  if (rank.is_out || end.step != StopStep::none) return false;
  if (find_group(end.rank) == nullptr)
    groups_.push_back({.cause = end.rank, .ranks = {end.rank}, .restart = 0, .due = now});
  return true;
}

std::chrono::milliseconds Restarter::next_delay(Account& account, const Rank& rank, Time now) {
  if (rank.begun && now - *rank.begun > policy_.max_delay) account.in_a_row = 0;
  auto delay = std::min(policy_.delay, policy_.max_delay);
  for (unsigned i = 0; i < account.in_a_row && delay < policy_.max_delay && delay.count() > 0; ++i)
    delay = std::min(2 * delay, policy_.max_delay);
  ++account.in_a_row;
  const double part =
      std::uniform_real_distribution<double>(0, 1)(random_) * std::clamp(policy_.jitter, 0.0, 1.0);
  return std::chrono::milliseconds(std::llround(static_cast<double>(delay.count()) * (1 - part)));
}

void Restarter::decide(std::uint64_t cause, Time now, Actions& actions) {
  Decision decision{.cause = cause, .ranks = {}, .restart = 0, .delay = {}, .to_stop = {}};
  auto gang = gang_of(cause);
  std::set<std::uint64_t> known;
  Group next{.cause = cause, .ranks = {}, .restart = 0, .due = now};
  // Those that wait already, and begin anew with it: one more that has failed meanwhile does not
  // count twice.
  for (auto group = groups_.begin(); group != groups_.end();) {
    const bool is_joined = std::any_of(group->ranks.begin(), group->ranks.end(),
                                       [&](const auto rank) { return gang.contains(rank); });
    if (!is_joined) {
      ++group;
      continue;
    }
    known.insert(group->ranks.begin(), group->ranks.end());
    next.restart = std::max(next.restart, group->restart);
    next.due = std::max(next.due, group->due);
    next.charged.insert(next.charged.end(), group->charged.begin(), group->charged.end());
    group = groups_.erase(group);
  }
  if (next.restart == 0) {
    auto& account = accounts_[account_of(cause)];
    while (policy_.window.count() > 0 && !account.spent.empty() &&
           now - account.spent.front() >= policy_.window)
      account.spent.pop_front();
    if (policy_.budget && account.spent.size() >= *policy_.budget) {
      actions.exhausted.push_back(cause);
      return give_up(cause, actions);
    }
    next.charged.push_back(now);
    if (policy_.budget) account.spent.push_back(now);
    ++account.all;
    next.restart = policy_.budget ? account.spent.size() : account.all;
    next.due = now + next_delay(account, ranks_[cause], now);
  }
  gang.insert(known.begin(), known.end());
  for (const auto rank : gang) {
    if (!known.contains(rank) && !ranks_[rank].has_ended) decision.to_stop.push_back(rank);
  }
  decision.ranks.assign(gang.begin(), gang.end());
  decision.restart = next.restart;
  decision.delay = std::chrono::ceil<std::chrono::milliseconds>(next.due - now);
  next.ranks = std::move(gang);
  groups_.push_back(std::move(next));
  actions.decided.push_back(std::move(decision));
}

void Restarter::on_over(std::uint64_t rank) {
  ranks_[rank].is_over = true;
}

Restarter::Actions Restarter::turn(Time now) {
  Actions actions;
  std::erase_if(groups_, [&](const Group& group) {
    if (now < group.due) return false;
    const auto may_begin = [this](std::uint64_t rank) {
      return ranks_[rank].has_ended && ranks_[rank].is_over;
    };
    if (!std::all_of(group.ranks.begin(), group.ranks.end(), may_begin)) return false;
    for (const auto rank : group.ranks) {
      const auto restarts = ranks_[rank].restarts;
      if (policy_.gang != Gang::one) begun_[rank] = restarts + 1;
      left_.erase(rank);
      ranks_[rank] = Rank{.begun = now, .restarts = restarts};
      actions.starts.push_back(rank);
    }
    return true;
  });
  std::sort(actions.starts.begin(), actions.starts.end());
  return actions;
}

void Restarter::resize(std::uint64_t ranks) {
  ranks_.resize(ranks);
  const auto drop = [ranks](auto& of_ranks) {
    of_ranks.erase(of_ranks.lower_bound(ranks), of_ranks.end());
  };
  drop(left_);
  drop(begun_);
  if (policy_.gang == Gang::one) drop(accounts_);
  for (auto& group : groups_) drop(group.ranks);
  std::erase_if(
      groups_, [ranks](const Group& group) { return group.ranks.empty() || group.cause >= ranks; });
}

Restarter::Actions Restarter::stop(const RankSet& ranks) {
  Actions actions;
  for (std::uint64_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks.empty() && !contains(ranks, rank)) continue;
    auto* const group = find_group(rank);
    ranks_[rank].is_out = true;
    if (group == nullptr) continue;
    if (group->cause == rank || ranks_[rank].has_ended) give_up(rank, actions);
    group->ranks.erase(rank);
  }
  std::erase_if(groups_, [](const Group& group) { return group.ranks.empty(); });
  return actions;
}

std::optional<Restarter::Time> Restarter::next_due() const {
  std::optional<Time> next;
  for (const auto& group : groups_) {
    const auto may_begin = [this](std::uint64_t rank) {
      return ranks_[rank].has_ended && ranks_[rank].is_over;
    };
    if (!std::all_of(group.ranks.begin(), group.ranks.end(), may_begin)) continue;
    next = next ? std::min(*next, group.due) : group.due;
  }
  return next;
}

}  // namespace meshbus
