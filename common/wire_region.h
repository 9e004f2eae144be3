#pragma once

#include "meshbus/region.h"
#include "meshbus/result.h"
#include "wire/control_generated.h"

/// The one way in which regions travel.
namespace meshbus {

wire::RegionT to_wire(const Region& region);
/// Errors: malformed_message when there is none, or it is not one; too_large when its labels together have more than 64 KiB.
Result<Region> from_wire(const wire::Region* region);

}  // namespace meshbus
