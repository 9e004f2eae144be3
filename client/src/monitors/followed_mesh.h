#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "client/src/monitors/lease_renewer.h"
#include "common/bus/bus.h"
#include "meshbus/address.h"
#include "wire/forward.h"

namespace meshbus {

class MeshMonitor;

/// A mesh of procs whose updates come through one connection: asks its hosts for what was missed.
/// Lives on the reactor's thread.
class FollowedMesh {
 public:
  /// `owner`: the ProcId under which the agents know this launcher as the owner of the mesh.
  FollowedMesh(std::shared_ptr<MeshMonitor> monitor, std::string owner);

  MeshMonitor& monitor() const noexcept { return *monitor_; }
  /// The rank whose proc has that key.
  std::optional<ProcId> find_proc(std::uint64_t key);
  /// Whether that agent has yet to tell all that it knows.
  bool is_out_of_sync(const HostAddr& host, std::uint64_t agent) const;
  /// Asks the agent for all that it knows. When `self` is not the owner that agents know, tells it
  /// so: changes and output come here from now on. `on_synced` follows when it has answered.
  void resync(Bus& bus, const std::string& self, const HostAddr& host,
              const std::function<void()>& on_synced);
  void note_synced(const HostAddr& host, std::uint64_t agent) { synced_[host] = agent; }
  /// The agents send again what of its output was not taken.
  void ask_for_output(Bus& bus) const;

  /// The mesh is being handed over with that lease. Until all hosts have confirmed, hosts on either
  /// side of the change are renewed as their own lease wants it.
  void begin_handover(std::chrono::milliseconds lease) { given_lease_ = lease; }
  /// How its lease is to be renewed; LeaseRenewer::Lease::shortest is 0 when it is not.
  LeaseRenewer::Lease lease() const;
  /// 0 when no handover is under way.
  std::chrono::milliseconds given_lease() const;

 private:
  std::shared_ptr<MeshMonitor> monitor_;
  std::string owner_;
  std::chrono::milliseconds given_lease_{0};
  /// The incarnation of each host's agent that has answered the last resync().
  std::map<HostAddr, std::uint64_t> synced_;
  /// Key of a proc -> its rank; filled when it is needed first.
  std::unordered_map<std::uint64_t, std::uint64_t> rank_of_;
  /// The mesh of which they are the ranks.
  const ProcMeshRef* ranks_of_ = nullptr;
};

}  // namespace meshbus
