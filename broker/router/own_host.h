#pragma once

#include <cstdint>
#include <utility>

#include "common/wire/frame.h"
#include "meshbus/address.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// The host of this broker, and how the broker's own messages begin. Pure.
class OwnHost {
 public:
  OwnHost(HostAddr address, std::uint64_t incarnation)
      : address_(std::move(address)), key_(address_.key()), incarnation_(incarnation) {}

  const HostAddr& address() const noexcept { return address_; }
  /// key() of address()
  std::uint64_t key() const noexcept { return key_; }
  std::uint64_t incarnation() const noexcept { return incarnation_; }
  /// Whether a message for that host stays here; 0 = no host is named.
  bool is_here(std::uint64_t host) const noexcept { return host == 0 || host == key_; }
  /// The envelope of a control message about one connection's session. Has no number.
  wire::Envelope session_envelope() const noexcept {
    wire::Envelope envelope;
    envelope.mutate_source_host(key_);
    envelope.mutate_source_incarnation(incarnation_);
    envelope.mutate_kind(wire::Kind::control);
    envelope.mutate_lane(wire::Lane::control);
    envelope.mutate_role(wire::Role::broker);
    envelope.mutate_flags(kFlagNoReturn);
    return envelope;
  }

 private:
  HostAddr address_;
  std::uint64_t key_;
  std::uint64_t incarnation_;
};

}  // namespace meshbus
