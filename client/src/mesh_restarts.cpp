// What a MeshMonitor does with the ends of ranks when its mesh has a RestartPolicy.
#include <algorithm>

#include "client/src/mesh_monitor.h"

namespace meshbus {
namespace {

/// From an exit report that has not come to the next look at how late it is.
constexpr std::chrono::seconds kLookAgain{1};

}  // namespace

MeshMonitor::Judgement MeshMonitor::judge(const std::vector<RankReport>& failures, Clock::time_point now) {
  Judgement judgement;
  std::vector<std::uint64_t> given_up = std::exchange(given_up_, {});
  const auto take = [&](Restarter::Actions actions) {
    for (auto& decision : actions.decided) {
      for (const auto rank : decision.ranks) table_.set_restarting(rank, true);
      judgement.restarts.push_back({.cause = table_.rank(decision.cause),
                                    .ranks = to_rank_set(decision.ranks),
                                    .restart = decision.restart,
                                    .budget = options_.restart.budget,
                                    .delay = decision.delay});
      if (!decision.to_stop.empty()) judgement.stops.emplace_back(std::move(decision.to_stop), table_.rank(decision.cause));
    }
    judgement.starts.insert(judgement.starts.end(), actions.starts.begin(), actions.starts.end());
    given_up.insert(given_up.end(), actions.given_up.begin(), actions.given_up.end());
  };
  for (const auto& failure : failures) {
    not_over_.insert(failure.rank);
    take(restarter_->on_end(failure, now));
  }
  for (const auto rank : std::exchange(unjudged_, {})) {
    not_over_.insert(rank);
    take(restarter_->on_end(table_.rank(rank), now));
  }
  std::erase_if(not_over_, [&](std::uint64_t rank) {
    if (!table_.is_over(rank, now)) return false;
    restarter_->on_over(rank);
    return true;
  });
  take(restarter_->turn(now));
  // With one that is given up, its gang is.
  for (std::uint64_t rank = 0; !given_up.empty() && rank < table_.size(); ++rank) table_.set_restarting(rank, restarter_->is_waiting(rank));
  for (const auto rank : given_up) {
    table_.decide(rank);
    judgement.failures.push_back(table_.rank(rank));
  }
  for (const auto rank : judgement.starts) {
    table_.begin_life(rank);
    output_ended_[rank] = false;
  }
  if (!judgement.starts.empty()) ++version_;
  return judgement;
}

std::optional<MeshMonitor::Clock::time_point> MeshMonitor::next_restart(Clock::time_point now) const {
  if (!restarter_) return std::nullopt;
  auto next = restarter_->next_due();
  // An exit report that does not come is waited for no longer than that.
  if (restarter_->is_busy() && !not_over_.empty()) next = std::min(next.value_or(now + kLookAgain), now + kLookAgain);
  return next;
}

void MeshMonitor::carry_out(Judgement judgement) {
  for (auto& restart : judgement.restarts) {
    if (!options_.handlers.on_restart) break;
    handlers_.post([self = shared_from_this(), restart = std::move(restart)] {
      self->gate_.pass([&] { self->options_.handlers.on_restart(restart); });
    });
  }
  for (const auto& [ranks, cause] : judgement.stops) orders_.stop(ranks, cause);
  if (!judgement.starts.empty()) orders_.start(judgement.starts);
  for (auto& failure : judgement.failures) {
    handlers_.post([self = shared_from_this(), failure = std::move(failure)] {
      self->gate_.pass([&] { self->options_.handlers.on_failure(failure); });
      {
        const std::lock_guard lock(self->mutex_);
        ++self->failures_told_;
      }
      self->changed_.notify_all();
    });
  }
}

std::uint64_t MeshMonitor::restarts_of(std::uint64_t rank) const {
  const std::lock_guard lock(mutex_);
  return table_.rank(rank).restarts;
}

MeshMonitor::Start MeshMonitor::start_of(std::uint64_t rank, std::uint64_t restarts) const {
  const std::lock_guard lock(mutex_);
  const auto& report = table_.rank(rank);
  if (report.is_terminal() || report.restarts != restarts || report.incarnation != 0) return Start::over;
  return abandoned_ || restarter_->is_stopped(rank) ? Start::unwanted : Start::wanted;
}

void MeshMonitor::cancel_lives(const std::vector<std::uint64_t>& ranks) {
  if (ranks.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (const auto rank : ranks) {
      table_.cancel_life(rank, reactor_.now());
      output_ended_[rank] = true;
      if (!table_.rank(rank).is_failure()) unjudged_.insert(rank);
    }
    ++version_;
  }
  changed_.notify_all();
  settle();
}

void MeshMonitor::fail_lives(const std::vector<std::uint64_t>& ranks, const Error& error) {
  std::vector<RankReport> changed;
  {
    const std::lock_guard lock(mutex_);
    for (const auto rank : ranks) {
      table_.fail_life(rank, error, reactor_.now(), std::chrono::system_clock::now());
      changed.push_back(table_.rank(rank));
    }
    ++version_;
  }
  changed_.notify_all();
  if (options_.handlers.on_state) {
    for (const auto& report : changed) tell_state(report);
  }
  settle();
}

void MeshMonitor::stop_restarts(const RankSet& ranks) {
  {
    const std::lock_guard lock(mutex_);
    if (!restarter_) return;
    const auto actions = restarter_->stop(ranks);
    given_up_.insert(given_up_.end(), actions.given_up.begin(), actions.given_up.end());
    for (std::uint64_t rank = 0; rank < table_.size(); ++rank) {
      if (ranks.empty() || contains(ranks, rank)) table_.set_restarting(rank, false);
    }
  }
  reactor_.post([self = shared_from_this()] { self->settle(); });
}

}  // namespace meshbus
