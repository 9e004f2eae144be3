#include "cli/run/job_stall.h"

#include <algorithm>
#include <map>

namespace meshbus::cli {
namespace {

constexpr std::chrono::milliseconds kSampleLimit{2000};

/// Roles have so many ranks at most: samples of several roles have different numbers.
constexpr unsigned kRankBits = 40;

/// The last samples of the live ranks of all roles; none when no host answers.
std::map<std::uint64_t, StallJudge::Sample> samples_of(HostMesh& hosts, const RoleViews& roles) {
  std::map<std::uint64_t, StallJudge::Sample> samples;
  const auto listing = hosts.meshes(kSampleLimit, /*with_usage=*/true);
  if (!listing) return samples;
  for (const auto& mesh : listing->meshes) {
    const auto role = std::find_if(roles.begin(), roles.end(), [&](const RoleView& one) {
      return one.mesh.ref().mesh().to_string() == mesh.name;
    });
    if (role == roles.end()) continue;
    const auto number = static_cast<std::uint64_t>(role - roles.begin()) << kRankBits;
    for (const auto& rank : mesh.ranks) {
      if (!rank.usage || rank.is_terminal()) continue;
      samples[number + rank.rank] = {.at = rank.usage->sampled,
                                     .cpu = rank.usage->user_time + rank.usage->system_time,
                                     .beat = rank.usage->progress};
    }
  }
  return samples;
}

}  // namespace

std::optional<std::string> JobStall::look(Context& context, HostMesh& hosts, const RoleViews& roles,
                                          JobStacks& stacks) {
  if (!judge_.is_look_due(StallJudge::Time::clock::now())) return std::nullopt;
  for (const auto& role : roles) judge_.on_output(role.events.last_output());
  const auto samples = samples_of(hosts, roles);
  const auto now = StallJudge::Time::clock::now();
  // Without samples nothing is known to stand still.
  if (samples.empty()) {
    judge_.on_running(now);
    return std::nullopt;
  }
  judge_.on_samples(samples, now);
  if (!judge_.is_stalled(now)) return std::nullopt;
  const std::string why =
      "stalled: no rank has written anything, used CPU time or told of progress for " +
      std::to_string(limit_.count()) + " ms";
  const auto odd = stacks.look(context, roles, why, JobStacks::Unless::a_thread_runs);
  if (!odd) {
    judge_.on_running(now);
    return std::nullopt;
  }
  return odd->empty() ? why : why + "; unlike most, " + *odd;
}

}  // namespace meshbus::cli
