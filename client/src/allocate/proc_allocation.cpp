#include "client/src/allocate/proc_allocation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/src/allocate/host_ends.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"

namespace meshbus {
namespace {

using HostChange = AllocationEvent::Kind;

/// What a host that is told to end may take for it before it is killed.
constexpr std::chrono::milliseconds kTermLimit{2000};
/// What the end of one that is killed may take, and its report.
constexpr std::chrono::milliseconds kKillLimit{2500};

std::string text_of_end(const RankReport& report, const std::string& mesh) {
  std::string how = report.reason;
  if (how.empty())
    how = report.signal != 0 ? "killed by " + signal_name(report.signal)
                             : "exit " + std::to_string(report.exit_code);
  return "its proc (rank " + std::to_string(report.rank) + " of " + mesh + ", pid " +
         std::to_string(report.pid) + " on " + report.host.to_string() + ") ended: " + how;
}

}  // namespace

ProcAllocation::ProcAllocation(std::shared_ptr<ContextCore> core, Extent extent,
                               std::vector<HostAddr> hosts, ProcMesh procs, bool ends_with_us,
                               const LaunchedHost::Teller& tell)
    : Allocation(std::move(extent), std::move(hosts)),
      core_(std::move(core)),
      procs_(std::move(procs)),
      ends_with_us_(ends_with_us) {
  core_->run([&] {
    procs_.impl_->monitor().listen(
        [tell, ends = ends(), hosts = this->hosts(), told = std::vector<char>(this->hosts().size()),
         mesh = procs_.ref().mesh().to_string()](const RankReport& report) mutable {
          // One that had ended before this may be told of twice.
          if (std::exchange(told[static_cast<std::size_t>(report.rank)], char{1}) != 0) return true;
          const auto how = text_of_end(report, mesh);
          ends->note(report.rank, {how});
          tell({report.is_failure() ? HostChange::failed : HostChange::stopped, report.rank,
                hosts[static_cast<std::size_t>(report.rank)], how});
          return true;
        });
  });
}

Result<void> ProcAllocation::stop(std::chrono::milliseconds deadline) {
  StopOptions options{.reason = "its launcher ends the host"};
  options.grace = std::min(deadline, kTermLimit);
  options.deadline = std::min<std::chrono::milliseconds>(deadline, kTermLimit) + kKillLimit;
  const auto outcome = procs_.stop(options);
  if (!outcome) return fail(ErrorCode::stop_error, outcome.error().detail());
  std::string problems;
  for (const auto& rank : outcome->ranks) {
    if (rank.step != StopStep::kill) continue;
    problems += (problems.empty() ? "host " : "; host ") + std::to_string(rank.rank) + " (" +
                hosts()[static_cast<std::size_t>(rank.rank)].to_string() +
                "): it did not end by itself and was killed";
  }
  if (!problems.empty()) return fail(ErrorCode::stop_error, std::move(problems));
  return {};
}

}  // namespace meshbus
