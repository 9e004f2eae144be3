#include "common/bus/destination.h"

namespace meshbus {

Destination Destination::to(const ProcId& proc) {
  return {proc.key(), proc.host().key(), proc.host().to_string()};
}

Destination Destination::to_agent(const HostAddr& host) {
  return to(host_service(host));
}

Destination Destination::to_broker(const HostAddr& host) {
  return {0, host.key(), host.to_string()};
}

wire::Envelope Destination::envelope(std::uint32_t port, wire::Kind kind, wire::Lane lane,
                                     std::uint32_t flags) const {
  wire::Envelope envelope;
  envelope.mutate_flags(flags);
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host);
  envelope.mutate_port(port);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(lane);
  return envelope;
}

}  // namespace meshbus
