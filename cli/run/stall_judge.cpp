#include "cli/run/stall_judge.h"

#include <algorithm>

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

constexpr int kLooksPerLimit = 8;
constexpr StallJudge::Duration kShortestPeriod = 250ms;
constexpr StallJudge::Duration kLongestPeriod = 10s;
/// One part in so many of a CPU is a sign of work.
constexpr int kLeastShare = 100;

}  // namespace

StallJudge::Duration StallJudge::period() const {
  return std::clamp(limit_ / kLooksPerLimit, kShortestPeriod, kLongestPeriod);
}

void StallJudge::on_output(Time at) {
  if (at <= sign_at_) return;
  sign_at_ = at;
  was_told_ = false;
}

bool StallJudge::is_sign(std::uint64_t rank, const Sample& sample) const {
  const auto before = samples_.find(rank);
  if (before == samples_.end()) return true;
  const auto& [at, cpu, beat] = before->second;
  if (sample.beat && sample.beat != beat) return true;
  // A rank that has begun again has used less than before.
  if (sample.cpu < cpu) return true;
  return sample.at > at && (sample.cpu - cpu) * kLeastShare >= sample.at - at;
}

void StallJudge::on_samples(const std::map<std::uint64_t, Sample>& samples, Time now) {
  const bool works = std::any_of(samples.begin(), samples.end(), [&](const auto& entry) {
    return is_sign(entry.first, entry.second);
  });
  samples_ = samples;
  if (works) on_output(now);
}

bool StallJudge::is_look_due(Time now) {
  if (now < next_look()) return false;
  const auto late = now - next_look();
  if (late > period()) sign_at_ += late;
  looked_at_ = now;
  return true;
}

bool StallJudge::is_stalled(Time now) {
  if (was_told_ || now - sign_at_ < limit_) return false;
  was_told_ = true;
  return true;
}

}  // namespace meshbus::cli
