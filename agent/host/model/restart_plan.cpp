#include "agent/host/model/restart_plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "agent/host/model/mesh_spec.h"

namespace meshbus::host {
namespace {

// What a restart policy may take in this agent's memory, and in each of its answers.
constexpr std::size_t kMostCodes = 256;
constexpr std::size_t kMostRestartTimes = kMostRanksPerHost;
constexpr std::size_t kMostRuns = kMostRanksPerHost;
/// RestartProcs.restarts counts no further.
constexpr std::uint64_t kMostRestarts = std::numeric_limits<std::uint32_t>::max();

/// Keeps the latest, which are in the window for longest.
void bound_times(std::vector<wire::RestartTime>& times) {
  if (times.size() <= kMostRestartTimes) return;
  const auto is_earlier = [](const auto& a, const auto& b) { return a.time_ns() < b.time_ns(); };
  std::stable_sort(times.begin(), times.end(), is_earlier);
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(kMostRestartTimes));
}

}  // namespace

Result<std::optional<wire::RestartPlanT>> parse_restart_plan(const wire::RestartPlan* plan) {
  if (plan == nullptr) return std::nullopt;
  const auto bad = [](ErrorCode code, const std::string& field, std::uint64_t value) {
    return fail(code, "RestartProcs.plan." + field + ": " + std::to_string(value));
  };
  if (plan->on() > wire::RestartOn::MAX)
    return bad(ErrorCode::out_of_range, "on", static_cast<std::uint64_t>(plan->on()));
  if (plan->gang() > wire::RestartGang::MAX)
    return bad(ErrorCode::out_of_range, "gang", static_cast<std::uint64_t>(plan->gang()));
  if (plan->jitter_milli() > 1000)
    return bad(ErrorCode::out_of_range, "jitter_milli", plan->jitter_milli());
  const auto size = [](const auto* list) { return list == nullptr ? 0U : list->size(); };
  if (size(plan->codes()) > kMostCodes)
    return bad(ErrorCode::too_large, "codes", size(plan->codes()));
  if (size(plan->used()) > kMostRanksPerHost)
    return bad(ErrorCode::too_large, "used", size(plan->used()));
  if (size(plan->begun()) > kMostRuns)
    return bad(ErrorCode::too_large, "begun", size(plan->begun()));
  for (flatbuffers::uoffset_t i = 0; i < size(plan->used()); ++i) {
    if (const auto all = plan->used()->Get(i)->all(); all > kMostRestarts)
      return bad(ErrorCode::out_of_range, "used.all", all);
  }
  std::optional<wire::RestartPlanT> out;
  plan->UnPackTo(&out.emplace());
  bound_times(out->times);
  return out;
}

}  // namespace meshbus::host
