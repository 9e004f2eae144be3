// What a host agent keeps of a restart policy for the owners that follow (spec 8.9).
#include "agent/host/model/restart_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace meshbus::host {
namespace {

Result<std::optional<wire::RestartPlanT>> parsed_plan(const wire::RestartPlanT& plan) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::RestartPlan::Pack(builder, &plan));
  return parse_restart_plan(flatbuffers::GetRoot<wire::RestartPlan>(builder.GetBufferPointer()));
}

/// The code and the words of the refusal.
void check_plan_refused(const wire::RestartPlanT& plan, ErrorCode code, const std::string& words) {
  const auto result = parsed_plan(plan);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().code() == code);
  CHECK(result.error().to_string().find(words) != std::string::npos);
}

TEST_CASE("host_restart_plan: what a mesh can have is kept as it is") {
  const auto none = parse_restart_plan(nullptr);
  REQUIRE(none.has_value());
  CHECK_FALSE(none->has_value());
  wire::RestartPlanT plan;
  plan.budget = UINT64_MAX;  // as good as no limit
  plan.used.emplace_back(0, UINT32_MAX, 7U, 0);
  const auto kept = parsed_plan(plan);
  REQUIRE(kept.has_value());
  REQUIRE(kept->has_value());
  CHECK((*kept)->budget == UINT64_MAX);
  CHECK((*kept)->used[0].all() == UINT32_MAX);
}

TEST_CASE("host_restart_plan: what no mesh can have is refused, with the field") {
  wire::RestartPlanT counted;
  counted.used.emplace_back(0, 1U, 1U, 0);
  counted.used.emplace_back(1, std::uint64_t{1} << 62, 1U, 0);
  check_plan_refused(counted, ErrorCode::out_of_range,
                     "RestartProcs.plan.used.all: 4611686018427387904");
  wire::RestartPlanT ordered;
  for (std::uint64_t rank = 0; rank < 16385; ++rank)
    ordered.begun.emplace_back(rank, rank + 1, 1U, 0U);
  check_plan_refused(ordered, ErrorCode::too_large, "RestartProcs.plan.begun: 16385");
  wire::RestartPlanT jittery;
  jittery.jitter_milli = 1001;
  check_plan_refused(jittery, ErrorCode::out_of_range, "RestartProcs.plan.jitter_milli: 1001");
}

TEST_CASE("host_restart_plan: of more times than it keeps it keeps the latest") {
  wire::RestartPlanT timed;
  for (std::int64_t i = 0; i < 20'000; ++i) timed.times.emplace_back(7, i % 2 == 0 ? i : -i);
  const auto kept = parsed_plan(timed);
  REQUIRE(kept.has_value());
  const auto& times = (*kept)->times;
  REQUIRE(times.size() == 16384);
  CHECK(times.back().time_ns() == 19'998);
  CHECK(std::is_sorted(times.begin(), times.end(),
                       [](const auto& a, const auto& b) { return a.time_ns() < b.time_ns(); }));
  CHECK(times.front().time_ns() == -12'767);
}

}  // namespace
}  // namespace meshbus::host
