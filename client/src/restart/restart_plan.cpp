#include "client/src/restart/restart_plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

/// For each rank, as in the schema.
constexpr std::size_t kMostTimes = 1000;
/// A host keeps so many for all its ranks.
constexpr std::size_t kMostTimesOfHost = 16384;
constexpr std::size_t kMostRunsOfHost = 16384;
/// Restarts of all ranks that a plan of a peer can count: 8 MB of times. No mesh gets so far.
constexpr std::uint64_t kMostRestarts = 1'000'000;
/// Ranks whose last order a plan of a peer can tell.
constexpr std::uint64_t kMostRanks = 1'000'000;

std::int64_t to_real_ns(RestartUsage::Time time, const ClockPair& now) {
  const auto real = now.real - (now.steady - time);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(real.time_since_epoch()).count();
}

RestartUsage::Time to_steady(std::int64_t real_ns, const ClockPair& now) {
  const auto real_now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now.real.time_since_epoch());
  // A clock that is ahead of ours has used it now, not later. Before 1970 there were no restarts.
  const auto age = std::max(real_now - std::chrono::nanoseconds(std::max<std::int64_t>(real_ns, 0)),
                            std::chrono::nanoseconds(0));
  return now.steady - std::chrono::duration_cast<RestartUsage::Time::duration>(age);
}

/// The times of all ranks that may still count: those of the window, as many as the budget asks
/// for, and not more than a host keeps. The latest, which count for longest.
std::vector<wire::RestartTime> times_of(const RestartPlan& plan, const ClockPair& now) {
  const auto& policy = plan.policy;
  std::vector<wire::RestartTime> times;
  if (policy.window.count() <= 0 || !policy.budget) return times;
  const auto most = std::min<std::uint64_t>(*policy.budget, kMostTimes);
  for (const auto& used : plan.used) {
    const auto first = used.spent.size() - std::min<std::uint64_t>(used.spent.size(), most);
    for (auto at = first; at < used.spent.size(); ++at) {
      if (now.steady - used.spent[at] < policy.window)
        times.emplace_back(used.rank, to_real_ns(used.spent[at], now));
    }
  }
  if (times.size() <= kMostTimesOfHost) return times;
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& a, const auto& b) { return a.time_ns() < b.time_ns(); });
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(kMostTimesOfHost));
  return times;
}

std::vector<wire::RestartRun> runs_of(const std::map<std::uint64_t, std::uint64_t>& begun) {
  std::vector<wire::RestartRun> runs;
  for (const auto& [rank, restarts] : begun) {
    const auto number = static_cast<std::uint32_t>(restarts);
    if (!runs.empty() && runs.back().end() == rank && runs.back().restarts() == number) {
      runs.back().mutate_end(rank + 1);
    } else if (runs.size() < kMostRunsOfHost) {
      runs.emplace_back(rank, rank + 1, number, 0U);
    }
  }
  return runs;
}

std::uint64_t to_ms(std::chrono::milliseconds time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

/// A time of a peer: bounded, so that sums of it do not overflow.
std::chrono::milliseconds from_ms(std::uint64_t ms) {
  constexpr std::uint64_t kLongest = std::uint64_t{1000} * 3600 * 24 * 365 * 100;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(ms, kLongest)));
}

}  // namespace

wire::RestartPlanT to_wire(const RestartPlan& plan, const ClockPair& now) {
  const auto& policy = plan.policy;
  wire::RestartPlanT out;
  out.on = static_cast<wire::RestartOn>(policy.on);
  out.codes.assign(policy.codes.begin(), policy.codes.end());
  out.budget = policy.budget;
  out.window_ms = to_ms(policy.window);
  out.gang = static_cast<wire::RestartGang>(policy.gang);
  out.delay_ms = to_ms(policy.delay);
  out.max_delay_ms = to_ms(policy.max_delay);
  out.jitter_milli =
      static_cast<std::uint32_t>(std::lround(std::clamp(policy.jitter, 0.0, 1.0) * 1000));
  out.over = plan.is_over;
  for (const auto& used : plan.used) out.used.emplace_back(used.rank, used.all, used.in_a_row, 0);
  out.times = times_of(plan, now);
  out.begun = runs_of(plan.begun);
  return out;
}

RestartPlan from_wire(const wire::RestartPlan& plan, const ClockPair& now) {
  RestartPlan out;
  auto& policy = out.policy;
  const bool is_known = plan.on() <= wire::RestartOn::MAX && plan.gang() <= wire::RestartGang::MAX;
  if (is_known) policy.on = static_cast<RestartPolicy::On>(plan.on());
  if (is_known) policy.gang = static_cast<Gang>(plan.gang());
  if (plan.codes() != nullptr) policy.codes.assign(plan.codes()->begin(), plan.codes()->end());
  policy.budget = plan.budget();
  policy.window = from_ms(plan.window_ms());
  policy.delay = from_ms(plan.delay_ms());
  policy.max_delay = from_ms(plan.max_delay_ms());
  policy.jitter = std::min(plan.jitter_milli() / 1000.0, 1.0);
  out.is_over = plan.over();
  std::map<std::uint64_t, std::size_t> at;  // index in `used` by rank
  auto room = kMostRestarts;
  for (flatbuffers::uoffset_t i = 0; plan.used() != nullptr && i < plan.used()->size(); ++i) {
    const auto* const used = plan.used()->Get(i);
    RestartUsage usage{.rank = used->rank(), .all = used->all(), .in_a_row = used->in_a_row()};
    // Without a window each restart counts for ever.
    if (policy.budget && policy.window.count() == 0) {
      const auto counted = std::min({usage.all, *policy.budget, room});
      usage.spent.assign(counted, now.steady);
      room -= counted;
    }
    if (at.emplace(usage.rank, out.used.size()).second) out.used.push_back(std::move(usage));
  }
  for (flatbuffers::uoffset_t i = 0; plan.times() != nullptr && i < plan.times()->size(); ++i) {
    const auto* const time = plan.times()->Get(i);
    const auto found = at.find(time->rank());
    const bool counts = policy.budget && policy.window.count() > 0;
    if (found == at.end() || !counts) continue;
    auto& spent = out.used[found->second].spent;
    if (spent.size() < kMostTimes) spent.push_back(to_steady(time->time_ns(), now));
  }
  auto ranks = kMostRanks;
  for (flatbuffers::uoffset_t i = 0; plan.begun() != nullptr && i < plan.begun()->size(); ++i) {
    const auto* const run = plan.begun()->Get(i);
    for (auto rank = run->begin(); rank < run->end() && ranks != 0; ++rank, --ranks)
      out.begun.emplace(rank, run->restarts());
  }
  for (auto& usage : out.used) std::sort(usage.spent.begin(), usage.spent.end());
  return out;
}

RestartPlan part_of(const RestartPlan& plan,
                    const std::function<bool(std::uint64_t rank)>& is_there) {
  auto part = plan;
  std::erase_if(part.begun, [&](const auto& entry) { return !is_there(entry.first); });
  if (part.policy.gang != Gang::one) return part;
  std::erase_if(part.used, [&](const RestartUsage& usage) { return !is_there(usage.rank); });
  return part;
}

void merge_into(RestartPlan& plan, const RestartPlan& other) {
  plan.is_over = plan.is_over || other.is_over;
  for (const auto& [rank, restarts] : other.begun) {
    auto& number = plan.begun[rank];
    number = std::max(number, restarts);
  }
  std::map<std::uint64_t, std::size_t> at;  // index in `used` by rank
  for (std::size_t i = 0; i < plan.used.size(); ++i) at.emplace(plan.used[i].rank, i);
  for (const auto& usage : other.used) {
    const auto [known, is_new] = at.emplace(usage.rank, plan.used.size());
    if (is_new) {
      plan.used.push_back(usage);
    } else if (plan.used[known->second].all < usage.all) {
      plan.used[known->second] = usage;
    }
  }
}

}  // namespace meshbus
