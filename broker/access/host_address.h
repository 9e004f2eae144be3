#pragma once

#include <optional>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Whether the host is reached over tcp, rather than by a unix socket of this machine.
bool is_tcp(const HostAddr& address);

/// Whether a broker may start with these addresses (spec 2.2, 13.1). `may_tcp`: there are keys, or
/// --insecure allows tcp without them. Errors: configuration_error, saying what to change.
Result<void> check_addresses(const std::vector<HostAddr>& binds,
                             const std::optional<HostAddr>& advertise, bool may_tcp);

/// The address of a host for others: `advertise` with a concrete port, or the first of `bound`,
/// which are concrete and in the order of the binds that check_addresses() let pass.
HostAddr advertised_address(const std::vector<HostAddr>& bound,
                            const std::optional<HostAddr>& advertise);

}  // namespace meshbus
