#include "broker/transport/connection_gate.h"

namespace meshbus {
namespace {

constexpr std::uint64_t kSecondsAtOnce = 5;
/// Beyond so many networks nobody can tell a crowd from one that has many addresses.
constexpr std::size_t kNetworksRemembered = 4096;

}  // namespace

ConnectionGate::ConnectionGate(Limits limits)
    : limits_(limits),
      rate_(limits.per_second, limits.per_second * kSecondsAtOnce),
      rested_(kNetworksRemembered) {}

std::optional<std::string> ConnectionGate::refuse(int descriptor, const std::string& network,
                                                  Time now) {
  if (descriptor >= limits_.first_kept)
    return "only few of this broker's descriptors are left. Find the program that connects "
           "without end, or raise the limit (ulimit -n)";
  if (network.empty() || limits_.per_second == 0) return std::nullopt;
  const RateLimit::Time* known = rested_.find(network);
  RateLimit::Time rested = known == nullptr ? RateLimit::Time{} : *known;
  if (!rate_.take(rested, now))
    return network +
           " opens more than connections.rate a second. Find the program that connects without "
           "end, or set connections.rate higher";
  rested_.add(network, rested);
  return std::nullopt;
}

}  // namespace meshbus
