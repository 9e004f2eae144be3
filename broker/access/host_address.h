#pragma once

#include <optional>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Whether a broker may start with these addresses (spec 2.2, 13.1). `may_tcp`: there are keys, or
/// it is to do without. Errors: configuration_error, saying what to change.
Result<void> check_addresses(const std::vector<HostAddr>& binds,
                             const std::optional<HostAddr>& advertise, bool may_tcp);

/// The address that a host is known by: `advertise` with a concrete port, or the first of `bound`,
/// which are concrete and in the order of the binds that check_addresses() let pass.
HostAddr advertised_address(const std::vector<HostAddr>& bound,
                            const std::optional<HostAddr>& advertise);

}  // namespace meshbus
