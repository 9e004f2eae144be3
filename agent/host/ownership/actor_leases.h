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

/// The leases of actors (spec 5.4). A launcher that has made actors in the procs of a mesh renews
/// their lease like that of a mesh, by RenewLease with the name MESH,ACTOR; the first renewal
/// begins it. The end of actors is not reported here: their lease is renewed no more and lapses,
/// and then there is nothing to stop. Lives on the reactor's thread.
class ActorLeases {
 public:
  static constexpr std::size_t kMost = 10'000;
  /// `on_lapsed`: the lease of these actors was not renewed for so long.
  using Lapsed = std::function<void(const std::string& mesh, const std::string& actor,
                                    std::chrono::milliseconds length)>;
  ActorLeases(Reactor& reactor, Lapsed on_lapsed)
      : reactor_(reactor), on_lapsed_(std::move(on_lapsed)) {}
  ~ActorLeases() { reactor_.cancel(timer_); }
  ActorLeases(const ActorLeases&) = delete;
  ActorLeases& operator=(const ActorLeases&) = delete;

  /// Whether it names actors: "MESH,ACTOR". No name of a mesh has a comma.
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
