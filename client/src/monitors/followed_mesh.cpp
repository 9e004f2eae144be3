#include "client/src/monitors/followed_mesh.h"

#include <algorithm>
#include <utility>

#include "client/src/monitors/mesh_monitor.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kAskLimit{5};

}  // namespace

FollowedMesh::FollowedMesh(std::shared_ptr<MeshMonitor> monitor, std::string owner)
    : monitor_(std::move(monitor)), owner_(std::move(owner)) {}

std::optional<ProcId> FollowedMesh::find_proc(std::uint64_t key) {
  const auto& mesh = monitor_->mesh();
  if (std::exchange(ranks_of_, &mesh) != &mesh) rank_of_.clear();
  for (auto rank = rank_of_.size(); rank < mesh.root_ranks(); ++rank) {
    if (const auto proc = mesh.proc_of(rank)) rank_of_.emplace(proc->key(), rank);
  }
  const auto found = rank_of_.find(key);
  if (found == rank_of_.end()) return std::nullopt;
  const auto proc = mesh.proc_of(found->second);
  return proc ? std::optional(*proc) : std::nullopt;
}

bool FollowedMesh::is_out_of_sync(const HostAddr& host, std::uint64_t agent) const {
  const auto found = synced_.find(host);
  return found == synced_.end() || found->second != agent;
}

void FollowedMesh::resync(Bus& bus, const std::string& self, const HostAddr& host,
                          const std::function<void()>& on_synced) {
  // Also for ranks that have ended: their exit reports may have been lost, and their output goes to
  // the former address.
  if (!monitor_->progress().has_unreported_on(host) && !monitor_->is_output_due(host)) return;
  synced_.erase(host);
  const bool has_moved = self != owner_ && !monitor_->progress().is_handed_over();
  const auto on_answer = [monitor = monitor_, host, on_synced, has_moved,
                          self](const Result<ControlMessage>& answer) {
    if (!answer) {
      // An agent that does not know ranks that it had accepted belongs to a host that was started
      // again: the ranks have ended with the former one.
      if (answer.error().code() == ErrorCode::not_exist)
        monitor->lose(host, "the host agent does not know this mesh: the host was started again",
                      /*is_proved=*/true);
      return;
    }
    const auto* const state = answer->body_as<wire::MeshState>();
    if (state == nullptr) return;
    monitor->on_update(host, state->ranks(), state->exit_reports(), state->launch());
    monitor->on_ownership(host, state->ownership());
    monitor->on_troubles(
        host, {.troubles = state->troubles(), .stuck = state->stuck(), .whole = state->ranks()});
    // An older agent goes on sending output to the former address.
    if (has_moved && text_of(state->owner()) != self) monitor->on_output_lost();
    on_synced();
  };
  if (has_moved || monitor_->progress().is_handed_over()) {
    wire::StreamStateT stream;
    stream.mesh = monitor_->name();
    stream.subscriber = self;
    stream.owner_moved = has_moved;
    bus.request(Destination::to_agent(host), std::move(stream), kAskLimit, on_answer);
  } else {
    wire::GetStateT get;
    get.mesh = monitor_->name();
    bus.request(Destination::to_agent(host), std::move(get), kAskLimit, on_answer);
  }
}

void FollowedMesh::ask_for_output(Bus& bus) const {
  if (!monitor_->options().has_output) return;
  wire::OutputTakenT again;
  again.mesh = monitor_->name();
  again.resend = true;
  for (const auto& host : monitor_->mesh().hosts()) bus.tell(Destination::to_agent(host), again);
}

LeaseRenewer::Lease FollowedMesh::lease() const {
  LeaseRenewer::Lease lease{.name = monitor_->name()};
  const auto& progress = monitor_->progress();
  if (progress.is_abandoned() || progress.is_handed_over()) return lease;
  const auto own = monitor_->options().lease;
  const bool has_both = own.count() != 0 && given_lease_.count() != 0;
  lease.shortest = has_both ? std::min(own, given_lease_) : own + given_lease_;
  // During a handover each host keeps the length that it has.
  if (given_lease_.count() == 0) lease.length = own;
  return lease;
}

std::chrono::milliseconds FollowedMesh::given_lease() const {
  return monitor_->progress().is_handed_over() ? std::chrono::milliseconds(0) : given_lease_;
}

}  // namespace meshbus
