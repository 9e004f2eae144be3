#include "cli/run/job_stall.h"

#include <map>

namespace meshbus::cli {
namespace {

constexpr std::chrono::milliseconds kSampleLimit{2000};

/// The last samples of the live ranks; none when no host answers.
std::map<std::uint64_t, StallJudge::Sample> samples_of(HostMesh& hosts, const std::string& name) {
  std::map<std::uint64_t, StallJudge::Sample> samples;
  const auto listing = hosts.meshes(kSampleLimit, /*with_usage=*/true);
  if (!listing) return samples;
  for (const auto& mesh : listing->meshes) {
    if (mesh.name != name) continue;
    for (const auto& rank : mesh.ranks) {
      if (!rank.usage || rank.is_terminal()) continue;
      samples[rank.rank] = {.at = rank.usage->sampled,
                            .cpu = rank.usage->user_time + rank.usage->system_time,
                            .beat = rank.usage->progress};
    }
  }
  return samples;
}

}  // namespace

std::optional<std::string> JobStall::look(JobHosts& hosts, const JobParts& parts,
                                          const RunEvents& events, JobStacks& stacks) {
  if (!judge_.is_look_due(StallJudge::Time::clock::now())) return std::nullopt;
  judge_.on_output(events.last_output());
  const auto samples = samples_of(hosts.chosen(), parts.mesh->ref().mesh().to_string());
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
  const auto odd = stacks.look(hosts, parts, why, JobStacks::Unless::a_thread_runs);
  if (!odd) {
    judge_.on_running(now);
    return std::nullopt;
  }
  return odd->empty() ? why : why + "; unlike most, " + *odd;
}

}  // namespace meshbus::cli
