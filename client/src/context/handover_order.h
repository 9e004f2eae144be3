#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "meshbus/proc_mesh.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// The order that hands `resource`, a mesh or a host, over to the controller that has accepted it.
inline wire::HandOverT handover_order(std::string_view resource,
                                      const wire::OfferAccepted& accepted,
                                      const HandoverOptions& options) {
  wire::HandOverT order;
  order.mesh = resource;
  order.owner = accepted.owner()->str();
  order.lease_ms = accepted.lease_ms();
  if (options.lease)
    order.lease_ms =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(options.lease->count(), 0, UINT32_MAX));
  order.loss = options.detach ? wire::OwnerLoss::detach : wire::OwnerLoss::lapse;
  return order;
}

}  // namespace meshbus
