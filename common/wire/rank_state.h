#pragma once

#include "wire/forward.h"
#include "wire/ranks_generated.h"

namespace meshbus {

/// Whether nothing comes after that state.
bool is_terminal(wire::ProcState state);
/// An end that nobody asked for (spec 4.2).
bool is_failure(const wire::RankState& state);

}  // namespace meshbus
