#include "client/src/allocate/process_allocation.h"

#include <algorithm>
#include <utility>

#include "client/src/allocate/host_ends.h"
#include "client/src/base/time_left.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
using HostChange = AllocationEvent::Kind;

std::vector<HostAddr> addresses_of(const std::vector<std::shared_ptr<LaunchedHost>>& processes) {
  std::vector<HostAddr> addresses;
  for (const auto& process : processes) addresses.push_back(process->announcement().host);
  return addresses;
}

}  // namespace

LaunchedHost::Teller teller(ContextCore& core, const AllocationSpec& spec) {
  if (!spec.on_event) return [](const AllocationEvent&) {};
  return [&core, told = spec.on_event](const AllocationEvent& event) {
    core.handlers().post([told, event] { told(event); });
  };
}

ProcessAllocation::ProcessAllocation(std::shared_ptr<ContextCore> core, Extent extent,
                                     std::vector<std::shared_ptr<LaunchedHost>> processes,
                                     Where where, const LaunchedHost::Teller& tell)
    : Allocation(std::move(extent), addresses_of(processes)),
      core_(std::move(core)),
      processes_(std::move(processes)),
      where_(where) {
  core_->run([&] {
    for (std::uint64_t rank = 0; rank < processes_.size(); ++rank) {
      processes_[rank]->watch(core_->reactor(), [rank, tell, where, ends = ends(),
                                                 host = hosts()[rank]](
                                                    const LaunchedHost::Exit& exit) {
        // The end of a connection is no end of a host. One that has lost its launcher ends, and
        // is missed when it does not answer.
        const bool is_proven =
            where == Where::here || exit.how.find("ended: exit 255") == std::string::npos;
        ends->note(rank, {exit.how, is_proven});
        tell({exit.is_in_order ? HostChange::stopped : HostChange::failed, rank, host, exit.how});
      });
    }
  });
}

ProcessAllocation::~ProcessAllocation() {
  if (!core_->check_process()) {
    // A forked child: the hosts are its parent's, and only that may end them.
    new std::vector<std::shared_ptr<LaunchedHost>>(std::move(processes_));
    return;
  }
  for (const auto& process : processes_) process->close_lifeline();
}

Result<void> ProcessAllocation::release() {
  // The command through which a host elsewhere was reached ends with us, and the host with it.
  if (!can_release()) return Allocation::release();
  for (const auto& process : processes_) {
    if (auto done = process->release(); !done) return done;
  }
  return {};
}

Result<void> ProcessAllocation::stop(std::chrono::milliseconds deadline) {
  if (auto fine = core_->check_may_wait(); !fine) return fine;
  const auto end =
      Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
  for (const auto& process : processes_) process->close_lifeline();
  std::string problems;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (wait_end(rank, left_until(end))) continue;
    processes_[rank]->kill();
    const bool is_gone = wait_end(rank, LaunchedHost::kEndLimit).has_value();
    problems += (problems.empty() ? "host " : "; host ") + std::to_string(rank) + " (" +
                hosts()[rank].to_string() + "): it did not end by itself and was killed" +
                (is_gone ? "" : ", and is still there");
  }
  if (!problems.empty()) return fail(ErrorCode::stop_error, std::move(problems));
  return {};
}

}  // namespace meshbus
