#pragma once

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// Whether a broker may connect to that address because a peer asks for it (spec 13.4). Pure: it
/// looks at the text of the address alone, so that the answer tells a remote peer nothing about
/// this machine. `is_local`: the peer came by a unix socket of this broker. Addresses of tcp take a
/// key in any case (Forwarder::introduce). Errors: unauthorised.
Result<void> may_dial(const HostAddr& host, bool is_local);

}  // namespace meshbus
