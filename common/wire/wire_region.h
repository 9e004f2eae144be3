#pragma once

#include <memory>

#include "meshbus/region.h"
#include "meshbus/result.h"
#include "wire/forward.h"

/// The one way in which regions travel.
namespace meshbus {

std::unique_ptr<wire::RegionT> to_wire(const Region& region);
/// Errors: malformed_message when there is none; configuration_error when it is not one (see
/// Region::make); too_large when its labels together have more than 64 KiB.
Result<Region> from_wire(const wire::Region* region);

}  // namespace meshbus
