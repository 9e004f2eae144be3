#pragma once

#include "common/base/bytes.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// The role with which a message of another host's broker is passed on (spec 13.4). That broker
/// vouches for its own peers up to operators, for the one agent that its host has (`is_agent`), and
/// for itself (no source proc).
///
/// With a ceiling below operator, an agent and a broker keep their roles for answers and reports,
/// and ask for nothing above the ceiling. Pure.
wire::Role role_over_link(const wire::Envelope& envelope, Bytes body, bool is_agent,
                          wire::Role ceiling);

}  // namespace meshbus
