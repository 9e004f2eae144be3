#include "agent/host/ownership/host_owner.h"

#include <utility>

#include "common/base/log.h"
#include "common/bus/bus.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

using Fate = MeshOwnership::Fate;

bool is_from(const wire::Envelope& envelope, const ProcId& peer) {
  return envelope.source_proc() == peer.key() && envelope.source_host() == peer.host().key();
}

}  // namespace

void HostOwner::take_over() {
  const auto left = read_host_owner(ledger_.ledger());
  if (!left) return;
  const auto owner = ProcId::parse(left->owner);
  if (!owner) return;
  ownership_.emplace(*owner, std::chrono::milliseconds(left->lease_ms), false, reactor_.now());
  ownership_->restore_handover(*owner, left->handed_by, left->loss);
  if (left->owner_gone) ownership_->restore_gone();
  write_down();
  if (!ownership_->is_gone() || ownership_->is_detached()) return arm();
  // The agent before had begun to end this host. The services are made by the next turn.
  timer_ = reactor_.after(std::chrono::milliseconds(0), [this] {
    timer_ = 0;
    on_lapsed_("the owner of this host did not renew its lease");
  });
}

bool HostOwner::is_free() const {
  return !ownership_ || ownership_->is_detached() || ownership_->lease().length().count() == 0;
}

Result<void> HostOwner::check_may_hand_over(const wire::Envelope& envelope,
                                            const ProcId& owner) const {
  if (is_free() || is_from(envelope, ownership_->owner())) return {};
  // It is done already, and the answer was lost; or the terms change. Any operator might end this
  // host as well.
  if (owner == ownership_->owner()) return {};
  return fail(ErrorCode::unauthorised, "host " + host_ + " is for its owner to hand over, " +
                                           ownership_->owner().to_string());
}

Result<void> HostOwner::hand_over(const ProcId& owner, std::chrono::milliseconds lease,
                                  wire::OwnerLoss loss) {
  if (ownership_ && ownership_->is_gone() && !ownership_->is_detached())
    return fail(ErrorCode::refused, "host " + host_ +
                                        " is about to end: its owner is gone; it is too late to "
                                        "hand it over");
  const bool is_other = is_free() || !(ownership_->owner() == owner);
  const auto before = is_free() ? std::string() : ownership_->owner().to_string();
  if (is_other) {
    ownership_.emplace(owner, lease, false, reactor_.now());
    ownership_->restore_handover(owner, before, loss);
    events_.add(wire::EventKind::handed_over, {}, before,
                owner.to_string() + " answers for this host from now on");
  } else if (auto done = ownership_->hand_over(host_, owner, lease, loss, reactor_.now()); !done) {
    return fail(done.error());
  }
  write_down();
  arm();
  return {};
}

Result<void> HostOwner::renew(std::chrono::milliseconds length) {
  if (!ownership_ || ownership_->is_gone())
    return fail(ErrorCode::not_exist, "nobody owns host " + host_);
  if (ownership_->renew(reactor_.now(), length)) write_down();
  arm();
  return {};
}

void HostOwner::arm() {
  reactor_.cancel(std::exchange(timer_, 0));
  if (!ownership_ || ownership_->is_gone()) return;
  if (const auto due = ownership_->lease().due())
    timer_ = reactor_.at(*due, [this] {
      timer_ = 0;
      check_lease();
    });
}

void HostOwner::check_lease() {
  const auto fate = ownership_->check_lease(reactor_.now());
  if (fate == Fate::lives) return arm();
  const std::string why = "the owner of this host did not renew its lease of " +
                          std::to_string(ownership_->lease().length().count()) + " ms";
  const bool is_kept = fate == Fate::detached;
  const std::string then =
      is_kept ? ": it goes on, and nobody answers for it" : ": it ends, with its procs";
  log::warn(why + then);
  events_.add(wire::EventKind::lease_lapsed, {}, ownership_->owner().to_string(), why + then);
  if (!is_kept) ownership_->restore_gone();
  write_down();
  if (!is_kept) on_lapsed_(why);
}

void HostOwner::write_down() {
  wire::LedgerMeshT entry;
  entry.owner = ownership_->owner().to_string();
  entry.handed_by = ownership_->handed_by();
  entry.lease_ms = static_cast<std::uint32_t>(ownership_->lease().length().count());
  entry.loss = ownership_->loss();
  entry.owner_gone = ownership_->is_gone();
  ledger_.set_host_owner(std::move(entry));
}

std::unique_ptr<wire::HostOwnerT> HostOwner::to_wire() const {
  if (!ownership_) return nullptr;
  auto wire = std::make_unique<wire::HostOwnerT>();
  wire->owner = ownership_->owner().to_string();
  wire->lease_ms = static_cast<std::uint32_t>(ownership_->lease().length().count());
  wire->loss = ownership_->loss();
  wire->gone = ownership_->is_gone();
  return wire;
}

}  // namespace meshbus::host
