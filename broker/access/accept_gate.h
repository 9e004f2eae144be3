#pragma once

#include <cstdint>
#include <string>

namespace meshbus {

/// meshbus-broker has an accept4() of its own, which libzmq and LocalRouter call, and which hangs
/// up at once on
///  - newcomers that would take the last descriptors: a quarter of them, 256 at most, is kept for
///    what is not accepted (links, files). libzmq 4.3 aborts when it cannot accept a connection on
///    a unix socket for want of a descriptor, and spins on tcp;
///  - connections over tcp from an address that opens too many: with keys each costs us public-key
///    operations, even one that is refused.
/// From any thread.

/// So many connections over tcp each address may open a second, and five seconds' worth at once; 0
/// = any number. An IPv6 address counts as its network (/64). Begins with 0.
void limit_connections(std::uint64_t per_second);

/// What was hung up on.
struct TurnedAway {
  std::uint64_t for_descriptors = 0;
  std::uint64_t for_rate = 0;
  /// The address that was turned away last for its rate.
  std::string last;
};
TurnedAway turned_away();

}  // namespace meshbus
