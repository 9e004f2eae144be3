#pragma once

#include <cstdint>
#include <string>

#include "meshbus/address.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Where to send: a proc, by its keys. `host_text` is set when the host may have to be introduced
/// to the broker; answers go back without it.
struct Destination {
  std::uint64_t proc = 0;
  std::uint64_t host = 0;
  std::string host_text;

  static Destination to(const ProcId& proc);
  /// The agent of a host.
  static Destination to_agent(const HostAddr& host);
  /// The broker of another host; without a host, our own.
  static Destination to_broker() { return {}; }
  static Destination to_broker(const HostAddr& host);
  /// Back to the sender of this message.
  static Destination back(const wire::Envelope& envelope) {
    return {envelope.source_proc(), envelope.source_host(), {}};
  }
  /// The envelope of a message to it; the Postbox numbers it.
  wire::Envelope envelope(std::uint32_t port, wire::Kind kind, wire::Lane lane,
                          std::uint32_t flags = 0) const;
};

}  // namespace meshbus
