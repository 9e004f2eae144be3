#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "agent/host/model/lease.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// The leases of actors (spec 5.4). Who has made actors in the procs of a mesh renews theirs as
/// those of meshes, by RenewLease with the name MESH,ACTOR; the first one begins it. Nobody says
/// when actors have ended: a lease that nobody renews any more lapses, and who is not there cannot
/// be stopped. Lives on the reactor's thread.
class ActorLeases {
 public:
  static constexpr std::size_t most = 10'000;
  /// `on_lapsed`: nobody has renewed that of these actors for so long.
  using Lapsed = std::function<void(const std::string& mesh, const std::string& actor,
                                    std::chrono::milliseconds length)>;
  ActorLeases(Reactor& reactor, Lapsed on_lapsed)
      : reactor_(reactor), on_lapsed_(std::move(on_lapsed)) {}
  ~ActorLeases() { reactor_.cancel(timer_); }
  ActorLeases(const ActorLeases&) = delete;
  ActorLeases& operator=(const ActorLeases&) = delete;

  /// "MESH,ACTOR", or nothing of the kind. No name has a comma.
  static bool is_meant(std::string_view name) noexcept {
    return name.find(',') != std::string_view::npos;
  }
  static std::string mesh_of(std::string_view name) {
    return std::string(name.substr(0, name.find(',')));
  }

  /// Length 0: as long as before; without one before, none. Errors: queue_full.
  Result<void> renew(const std::string& name, std::chrono::milliseconds length);
  std::size_t size() const noexcept { return leases_.size(); }

 private:
  void look();
  void arm();

  Reactor& reactor_;
  Lapsed on_lapsed_;
  std::map<std::string, Lease, std::less<>> leases_;
  Reactor::TimerId timer_ = 0;
  Lease::Time next_look_{};
};

}  // namespace meshbus::host
