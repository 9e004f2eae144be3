#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/controller/lease_book.h"
#include "client/controller/mesh_controller.h"
#include "client/controller/term_claims.h"
#include "meshbus/address.h"

namespace meshbus {

/// Which meshes a controller answers for, and the leases that it renews for them
/// (docs/decisions/0020-handover.md). Of a host that is silent the last word counts; but when that
/// names a controller of the same pair that has acted before, the mesh is ours if the other hosts
/// say so (docs/decisions/0066-what-a-silent-host-said-before-a-term.md). Pure.
class OwnedMeshes {
 public:
  using Time = MeshController::Time;
  using Meshes = std::map<std::string, MeshController, std::less<>>;

  /// The controller is known by this name (a ProcId), from now on also. False: it was already.
  bool add_name(const std::string& name) {
    claims_.begin();
    return names_.insert(name).second;
  }
  /// It is known by none from now on: another controller acts. What it was handing over is that
  /// one's business.
  void drop_names() {
    names_.clear();
    claims_.end();
    held_.clear();
    paused_.clear();
    hosts_.clear();
  }
  /// The controller has answers to its claims of a term.
  TermClaims& claims() noexcept { return claims_; }

  /// The mesh is being handed over to another owner: it stays ours, whatever its hosts say, until
  /// that is done on all of them.
  void hold(const std::string& mesh) {
    held_.insert(mesh);
    paused_.insert(mesh);
  }
  void let_go(const std::string& mesh) {
    held_.erase(mesh);
    paused_.erase(mesh);
  }
  /// The handover was not done on all hosts, and is not under way any more.
  void resume(const std::string& mesh) { paused_.erase(mesh); }
  bool contains(const MeshController& mesh) const {
    return held_.contains(mesh.mesh()) || is_named(mesh);
  }
  /// Its owner, as a host says; null: none has said. When it is ours, as a host says that knows.
  const OwnerUpdate* owner_of(const MeshController& mesh) const {
    const auto* const us = contains(mesh) ? mesh.owners().first_of(names_) : nullptr;
    return us == nullptr ? mesh.owners().first() : us;
  }

  /// Whether some of its hosts say that it is ours, and others have yet to be heard.
  bool is_unsure(const MeshController& mesh) const {
    return !mesh.have_all_spoken() && mesh.owners().names_any_of(names_);
  }

  /// Whether that host knows us as its owner by a name that we had before `present`.
  bool has_moved(const MeshController& mesh, const HostAddr& host,
                 const std::string& present) const {
    return contains(mesh) && mesh.owners().is_former_on(host, names_, present);
  }

  /// All its hosts say that, and it is not being handed over: its ranks are ours to restart.
  bool may_restart(const MeshController& mesh) const {
    return !paused_.contains(mesh.mesh()) && is_handed_to_us(mesh);
  }
  /// Its leases are ours to renew: with that, hosts do not know the owner before any more.
  bool may_renew(const MeshController& mesh) const {
    return held_.contains(mesh.mesh()) || is_handed_to_us(mesh);
  }

  /// The owner of that host itself, as it says. Returns whether that is new.
  bool note_host(const HostAddr& host, const std::optional<OwnerUpdate>& owner);
  /// The hosts that are ours; `that_end`: those of them that end with us.
  std::vector<HostAddr> hosts(bool that_end) const;
  bool is_ours(const HostAddr& host) const;
  /// Whether that name of an owner is one of ours.
  bool is_us(const std::string& owner) const { return names_.contains(owner); }

  /// Takes the leases of our meshes, and of the hosts that are ours, from what their hosts say.
  void note_leases(const Meshes& meshes, const std::vector<HostAddr>& hosts);
  /// The meshes whose leases are to be renewed now on that host; they count as asked. Empty: none,
  /// or the question before is not answered yet.
  std::vector<std::string> renew(const HostAddr& host, Time now);
  /// `is_done`: they were renewed as far as they exist.
  void on_renewed(const HostAddr& host, const std::vector<std::string>& meshes, bool is_done,
                  Time now);
  /// The connection is new: what was asked before is not answered any more.
  void on_connected();
  /// When renew() has something for that host.
  std::optional<Time> next_due(const HostAddr& host) const;

 private:
  struct Host {
    LeaseBook leases;
    bool is_renewing = false;
  };
  bool is_named(const MeshController& mesh) const {
    return mesh.owners().is_owned_by(names_, [&](const HostAddr& host, const OwnerUpdate& owner) {
      return claims_.is_past(host, owner) && is_confirmed(mesh);
    });
  }
  /// A host that has heard our claim says that it is ours.
  bool is_confirmed(const MeshController& mesh) const {
    return mesh.owners().is_named_on(
        names_, [this](const HostAddr& host) { return claims_.is_claimed(host); });
  }
  bool is_handed_to_us(const MeshController& mesh) const {
    return is_named(mesh) && mesh.have_all_spoken();
  }
  bool is_ours(const OwnerUpdate& owner) const {
    return !owner.is_gone && names_.contains(owner.owner);
  }

  std::set<std::string> names_;
  TermClaims claims_;
  std::map<HostAddr, OwnerUpdate> host_owners_;
  std::set<std::string, std::less<>> held_;
  /// Those of them that are being handed over at the moment.
  std::set<std::string, std::less<>> paused_;
  std::map<HostAddr, Host> hosts_;
};

}  // namespace meshbus
