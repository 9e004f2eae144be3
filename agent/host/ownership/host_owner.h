#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/host/model/mesh_ownership.h"
#include "agent/host/records/event_book.h"
#include "agent/host/records/ledger_writer.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

/// The owner of this host, if it was handed to one (docs/decisions/0054-hosts-are-handed-over.md):
/// what becomes of the host when that lets its lease lapse. Only the lease counts, because
/// controllers are restarted. Lives on the reactor's thread.
class HostOwner {
 public:
  /// The host is to end, for that reason.
  using Lapsed = std::function<void(const std::string& why)>;
  /// `host`: for people.
  HostOwner(Reactor& reactor, EventBook& events, LedgerWriter& ledger, std::string host,
            Lapsed on_lapsed)
      : reactor_(reactor),
        events_(events),
        ledger_(ledger),
        host_(std::move(host)),
        on_lapsed_(std::move(on_lapsed)) {}
  ~HostOwner() { reactor_.cancel(timer_); }
  HostOwner(const HostOwner&) = delete;
  HostOwner& operator=(const HostOwner&) = delete;

  /// Goes on with what another agent has left.
  void take_over();
  /// Whether the sender may name another owner. Errors: unauthorised.
  Result<void> check_may_hand_over(const wire::Envelope& envelope, const ProcId& owner) const;
  /// Errors: refused (the host is about to end).
  Result<void> hand_over(const ProcId& owner, std::chrono::milliseconds lease,
                         wire::OwnerLoss loss);
  /// Null: nobody answers for it.
  const MeshOwnership* find_ownership() const {
    return ownership_ && !ownership_->is_gone() ? &*ownership_ : nullptr;
  }
  /// Length 0: as long as before. Errors: not_exist (nobody owns it).
  Result<void> renew(std::chrono::milliseconds length);
  /// Null: nobody owns it.
  std::unique_ptr<wire::HostOwnerT> to_wire() const;

 private:
  /// Nobody answers for it: any operator may name an owner.
  bool is_free() const;
  void arm();
  void check_lease();
  void write_down();

  Reactor& reactor_;
  EventBook& events_;
  LedgerWriter& ledger_;
  std::string host_;
  Lapsed on_lapsed_;
  std::optional<MeshOwnership> ownership_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus::host
