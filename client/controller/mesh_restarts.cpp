#include "client/controller/mesh_restarts.h"

#include <algorithm>
#include <cstdio>

namespace meshbus {
namespace {

std::string seconds_of(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, time.count() < 10'000 ? "%.1f s" : "%.0f s",
                static_cast<double>(time.count()) / 1000);
  return text;
}

std::string ranks_of(const std::vector<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return "rank " + std::to_string(ranks.front());
  return "ranks " + to_string(to_rank_set(ranks));
}

/// Why the end of that rank is followed by no restart; empty: nobody wonders.
std::string_view why_hopeless(const RankReport& end) {
  switch (end.cause) {
    case Cause::exec_failed:
    case Cause::spawn_failed: return "it would only fail again";
    case Cause::host_lost:
    case Cause::keeper_lost:
    case Cause::host_ended: return "its host is lost, which alone knows how it is started";
    case Cause::lost:
    case Cause::unkillable: return "no host can prove that it is over";
    default: return {};
  }
}

}  // namespace

MeshRestarts::MeshRestarts(RestartPlan plan, std::uint64_t ranks, std::uint64_t seed)
    : restarter_(plan, ranks, seed), size_(ranks) {}

std::string MeshRestarts::budget_words() const {
  const auto& policy = restarter_.policy();
  const auto count = policy.budget.value_or(0);
  std::string text =
      "its budget of " + std::to_string(count) + (count == 1 ? " restart" : " restarts");
  if (policy.window.count() > 0) text += " in " + seconds_of(policy.window);
  return text + " is used up";
}

RestartPlan MeshRestarts::plan(Time now) const {
  auto plan = restarter_.plan(now);
  plan.is_over = is_over() || is_stopped_;
  return plan;
}

void MeshRestarts::give_up(Outcome& outcome, std::uint64_t rank, const std::string& why) {
  const auto end = ended_.find(rank);
  Notice notice{.is_given_up = true,
                .cause = rank,
                .ranks = to_rank_set({rank}),
                .words = "rank " + std::to_string(rank) + " is not restarted: " + why};
  if (end != ended_.end()) notice.words += "; its last end: " + end->second.words();
  given_up_.push_back(notice);
  outcome.notices.push_back(std::move(notice));
  if (restarter_.policy().gang == Gang::one) return;
  // The others cannot go on without it.
  Stop stop{.ranks = {},
            .cause = rank,
            .why = "rank " + std::to_string(rank) + " is not restarted: " + why};
  gang_stop_ = stop;
  for (const auto& [other, restarts] : live_) stop.ranks.push_back(other);
  if (!stop.ranks.empty()) outcome.stops.push_back(std::move(stop));
  const auto stopped = restarter_.stop({});
  for (const auto& [other, restarts] : starting_) outcome.cancelled.push_back(other);
  starting_.clear();
}

void MeshRestarts::take(Outcome& outcome, Restarter::Actions actions) {
  for (auto& decision : actions.decided) {
    const auto& cause = ended_.at(decision.cause);
    const auto& budget = restarter_.policy().budget;
    std::string words = ranks_of(decision.ranks) + (decision.ranks.size() == 1 ? " is" : " are") +
                        " restarted in " + seconds_of(decision.delay) + " (restart " +
                        std::to_string(decision.restart) +
                        (budget ? " of " + std::to_string(*budget) : "") + ")";
    if (decision.ranks.size() > 1) words += " because of rank " + std::to_string(decision.cause);
    outcome.notices.push_back({.is_given_up = false,
                               .cause = decision.cause,
                               .ranks = to_rank_set(decision.ranks),
                               .words = words + ": " + cause.words()});
    if (!decision.to_stop.empty())
      outcome.stops.push_back({.ranks = std::move(decision.to_stop),
                               .cause = decision.cause,
                               .why = "to be restarted with rank " +
                                      std::to_string(decision.cause) + ": " + cause.words()});
  }
  for (const auto rank : actions.starts) {
    const auto end = ended_.find(rank);
    const auto restarts = end == ended_.end() ? 1 : end->second.restarts + 1;
    starting_[rank] = restarts;
    outcome.starts.emplace_back(rank, restarts);
    if (end != ended_.end()) ended_.erase(end);
  }
  for (const auto rank : actions.exhausted) give_up(outcome, rank, budget_words());
  for (const auto rank : actions.given_up) {
    const bool is_told = std::find(actions.exhausted.begin(), actions.exhausted.end(), rank) !=
                         actions.exhausted.end();
    const auto end = ended_.find(rank);
    if (is_told || end == ended_.end()) continue;
    // A gang ends once.
    const bool is_lost =
        end->second.cause == Cause::host_lost || end->second.cause == Cause::keeper_lost;
    if (is_lost ? gang_stop_.has_value() : end->second.consequence) continue;
    if (const auto why = why_hopeless(end->second); !why.empty())
      give_up(outcome, rank, std::string(why));
  }
}

bool MeshRestarts::is_half_done(const RankReport& end,
                                const std::map<std::uint64_t, std::uint64_t>& live) const {
  const auto gang = restarter_.policy().gang;
  if (gang == Gang::one) return false;
  const bool is_stopped = end.step != StopStep::none;
  // These are not restarted with their gang.
  const bool is_out = is_stopped ? !end.because : end.is_failure() && !restarter_.counts(end);
  if (is_out) return false;
  return std::any_of(live.begin(), live.end(), [&](const auto& other) {
    const auto& [rank, restarts] = other;
    if (is_stopped && rank == *end.because && restarts > 0) return true;
    // With Gang::rest a later rank may have been restarted more often, without this one.
    return restarts > end.restarts && (gang == Gang::all || rank < end.rank);
  });
}

MeshRestarts::Outcome MeshRestarts::begin(std::vector<RankReport> ended,
                                          std::map<std::uint64_t, std::uint64_t> live, Time now) {
  Outcome outcome;
  // What a host said of ranks that there are not, before the size of the mesh was known.
  std::erase_if(ended, [&](const RankReport& end) { return end.rank >= size_; });
  live.erase(live.lower_bound(size_), live.end());
  // Ranks of which nothing was heard yet may live.
  for (std::uint64_t rank = 0; rank < size_; ++rank) live_.emplace(rank, 0);
  for (const auto& [rank, restarts] : live) live_[rank] = restarts;
  for (const auto& end : ended) {
    live_.erase(end.rank);
    ended_.insert_or_assign(end.rank, end);
  }
  std::vector<RankReport> half_done;
  std::vector<std::uint64_t> stopped;
  for (const auto& end : ended) {
    if (restarter_.is_stopped(end.rank) && restarter_.counts(end)) stopped.push_back(end.rank);
  }
  for (const auto& end : ended) {
    // An owner of an older release has not told what it had begun.
    if (!restarter_.knows_begun() && is_half_done(end, live)) {
      half_done.push_back(end);
      continue;
    }
    take(outcome, restarter_.on_end(end, now));
    restarter_.on_over(end.rank);
  }
  tell_stopped(outcome, std::move(stopped));
  take(outcome, restarter_.resume(half_done, now));
  take(outcome, restarter_.turn(now));
  return outcome;
}

MeshRestarts::Outcome MeshRestarts::on_end(const RankReport& end, Time now) {
  Outcome outcome;
  if (end.rank >= size_) return outcome;
  // The end of an incarnation whose order this one follows is known already.
  const auto starting = starting_.find(end.rank);
  if (starting != starting_.end() && end.restarts < starting->second) return outcome;
  const auto live = live_.find(end.rank);
  if (live != live_.end() && end.restarts < live->second) return outcome;
  starting_.erase(end.rank);
  live_.erase(end.rank);
  ended_.insert_or_assign(end.rank, end);
  take(outcome, restarter_.on_end(end, now));
  restarter_.on_over(end.rank);
  take(outcome, restarter_.turn(now));
  return outcome;
}

MeshRestarts::Outcome MeshRestarts::on_live(std::uint64_t rank, std::uint64_t restarts) {
  Outcome outcome;
  if (rank >= size_) return outcome;
  const auto starting = starting_.find(rank);
  if (starting != starting_.end() && restarts < starting->second) return outcome;
  if (starting != starting_.end()) starting_.erase(starting);
  const bool is_new = live_.insert_or_assign(rank, restarts).second;
  if (is_new && gang_stop_) {
    auto stop = *gang_stop_;
    stop.ranks = {rank};
    outcome.stops.push_back(std::move(stop));
  }
  return outcome;
}

MeshRestarts::Outcome MeshRestarts::on_refused(std::uint64_t rank, const std::string& why,
                                               Time now) {
  Outcome outcome;
  const auto starting = starting_.find(rank);
  if (starting == starting_.end()) return outcome;
  RankReport end;
  end.rank = rank;
  end.restarts = starting->second;
  end.state = ProcState::failed;
  // Nobody restarts what could not be started.
  end.cause = Cause::spawn_failed;
  starting_.erase(starting);
  (void)restarter_.on_end(end, now);
  if (!is_stopped_) give_up(outcome, rank, "its host refuses: " + why);
  return outcome;
}

void MeshRestarts::tell_stopped(Outcome& outcome, std::vector<std::uint64_t> ranks) {
  // The end of the whole mesh says it all.
  if (ranks.empty() || is_stopped_) return;
  std::sort(ranks.begin(), ranks.end());
  const bool is_one = ranks.size() == 1;
  given_up_.push_back({.is_given_up = true,
                       .cause = ranks.front(),
                       .ranks = to_rank_set(ranks),
                       .words = ranks_of(ranks) + (is_one ? " is" : " are") +
                                " not restarted: somebody has stopped " +
                                (is_one ? "it" : "them")});
  outcome.notices.push_back(given_up_.back());
}

MeshRestarts::Outcome MeshRestarts::stop(const RankSet& ranks) {
  Outcome outcome;
  std::vector<std::uint64_t> waiting;
  for (const auto& [rank, end] : ended_) {
    if (contains(ranks, rank) && is_waiting(rank)) waiting.push_back(rank);
  }
  for (const auto& [rank, restarts] : starting_) {
    if (contains(ranks, rank)) waiting.push_back(rank);
  }
  tell_stopped(outcome, std::move(waiting));
  (void)restarter_.stop(ranks);
  is_stopped_ = is_stopped_ || ranks.empty();
  for (auto at = starting_.begin(); at != starting_.end();) {
    if (!ranks.empty() && !contains(ranks, at->first)) {
      ++at;
      continue;
    }
    outcome.cancelled.push_back(at->first);
    at = starting_.erase(at);
  }
  return outcome;
}

MeshRestarts::Outcome MeshRestarts::turn(Time now) {
  Outcome outcome;
  take(outcome, restarter_.turn(now));
  return outcome;
}

}  // namespace meshbus
