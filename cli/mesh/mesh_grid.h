#pragma once

#include <iosfwd>

#include "meshbus/region.h"

namespace meshbus::cli {

/// The base ranks of a region as people look at them: the last axis from left to right, the one
/// before it downwards, and a block with its coordinates above it for each place in the others.
/// Writes as it goes; a failure is in the stream's state.
void print_grid(std::ostream& out, const Region& region);

}  // namespace meshbus::cli
