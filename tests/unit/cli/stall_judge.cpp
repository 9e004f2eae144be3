// run --stall-after: when a job stands still.
#include "cli/run/stall_judge.h"

#include <doctest/doctest.h>

using meshbus::cli::StallJudge;
using namespace std::chrono_literals;

namespace {

constexpr StallJudge::Time kJobStart{1000s};

using Samples = std::map<std::uint64_t, StallJudge::Sample>;
constexpr std::chrono::system_clock::time_point kWallStart{1'000'000s};

/// Looks as often as the judge wants until `until`; the hosts sample at each look.
void look(StallJudge& judge, StallJudge::Time until, Samples samples) {
  while (judge.next_look() <= until) {
    const auto now = judge.next_look();
    REQUIRE(judge.is_look_due(now));
    for (auto& [rank, sample] : samples)
      sample.at =
          kWallStart + std::chrono::duration_cast<std::chrono::microseconds>(now - kJobStart);
    judge.on_samples(samples, now);
  }
}

Samples two(std::chrono::microseconds first, std::chrono::microseconds second) {
  return {{0, {kWallStart, first}}, {1, {kWallStart, second}}};
}

}  // namespace

TEST_CASE("stall_judge: a job that neither writes nor works is stalled, and that is told once") {
  StallJudge judge(8s, kJobStart);
  look(judge, kJobStart + 8s, two(5s, 3s));
  CHECK_FALSE(judge.is_stalled(kJobStart + 8s));
  look(judge, kJobStart + 9s, two(5s, 3s));
  CHECK(judge.is_stalled(kJobStart + 9s));
  CHECK_FALSE(judge.is_stalled(kJobStart + 10s));
  judge.on_output(kJobStart + 11s);
  CHECK_FALSE(judge.is_stalled(kJobStart + 18s));
  CHECK(judge.is_stalled(kJobStart + 19s));
}

TEST_CASE("stall_judge: one rank that works or writes is enough; heartbeats are not") {
  StallJudge judge(8s, kJobStart);
  std::chrono::microseconds used = 1s;
  for (int i = 1; i <= 20; ++i) look(judge, kJobStart + 1s * i, two(1s, used += 11ms));
  CHECK_FALSE(judge.is_stalled(kJobStart + 20s));
  for (int i = 21; i <= 29; ++i) look(judge, kJobStart + 1s * i, two(1s, used += 2ms));
  CHECK(judge.is_stalled(kJobStart + 29s));
}

TEST_CASE("stall_judge: what little a rank uses between two rare samples is no sign") {
  StallJudge judge(8s, kJobStart);
  look(judge, kJobStart + 1s, two(1s, 1s));
  for (int i = 2; i <= 10; ++i) {
    REQUIRE(judge.is_look_due(kJobStart + 1s * i));
    // The host has sampled once in these 100 s.
    judge.on_samples({{0, {kWallStart + 100s, 1s + 900ms}}, {1, {kWallStart + 100s, 1s}}},
                     kJobStart + 1s * i);
  }
  CHECK(judge.is_stalled(kJobStart + 10s));
}

TEST_CASE("stall_judge: a progress beat is a sign, its repetition in later samples is none") {
  StallJudge judge(8s, kJobStart);
  auto samples = two(1s, 1s);
  for (int i = 1; i <= 20; ++i) {
    samples[1].beat = kWallStart + 1s * (i / 5);
    look(judge, kJobStart + 1s * i, samples);
  }
  CHECK_FALSE(judge.is_stalled(kJobStart + 20s));
  look(judge, kJobStart + 28s, samples);
  CHECK(judge.is_stalled(kJobStart + 28s));
}

TEST_CASE("stall_judge: a rank that begins again is a sign") {
  StallJudge judge(8s, kJobStart);
  look(judge, kJobStart + 7s, {{0, {kWallStart, 5s}}});
  look(judge, kJobStart + 8s, {{0, {kWallStart, 1ms}}});
  CHECK_FALSE(judge.is_stalled(kJobStart + 15s));
}

TEST_CASE("stall_judge: time in which we were stopped ourselves does not count") {
  StallJudge judge(8s, kJobStart);
  look(judge, kJobStart + 4s, {{0, {kWallStart, 5s}}});
  const auto later = kJobStart + 1h;
  REQUIRE(judge.is_look_due(later));
  judge.on_samples({{0, {kWallStart, 5s}}}, later);
  CHECK_FALSE(judge.is_stalled(later));
  look(judge, later + 8s, {{0, {kWallStart, 5s}}});
  CHECK(judge.is_stalled(later + 8s));
}
