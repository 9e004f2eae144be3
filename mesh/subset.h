#pragma once

#include "meshbus/region.h"

/// Whether the ranks of one region are all ranks of another. Not a public header; see is_subset()
/// in region.h.
namespace meshbus::subset {

/// How much the search had to look at: 0 when `a` is a slice of `b`, or of the mesh that `b` is all
/// of; never more than twice the ranks of `a`. For tests.
struct Cost {
  std::uint64_t pieces = 0;
};

bool is_subset(const Region& a, const Region& b, Cost& cost);

}  // namespace meshbus::subset
