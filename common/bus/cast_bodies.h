#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/bus/body_sender.h"
#include "common/bus/cast.h"
#include "common/bus/cast_chunks.h"
#include "common/bus/postbox.h"
#include "common/bus/requests.h"
#include "meshbus/shared_body.h"

namespace meshbus {

/// Casts bodies that are larger than a cast may be (spec 9.2): the ranks of our host map the
/// sender's memory, those of others get chunks, which pass each link once. Lives on the reactor's
/// thread.
class CastBodies {
 public:
  using Events = CastChunks::Events;
  CastBodies(Requests& requests, const Postbox& postbox, BodySender& bodies, CastChunks& chunks)
      : requests_(requests), postbox_(postbox), bodies_(bodies), chunks_(chunks) {}

  /// See CastChunks::send.
  void send(std::shared_ptr<const CastPlan> to, SharedBody body, Events events);

 private:
  /// One body that goes both ways.
  struct Transfer;

  void send_here(const std::shared_ptr<Transfer>& transfer, const CastPlan& to,
                 std::uint64_t ordinal);
  void send_elsewhere(const std::shared_ptr<Transfer>& transfer, const CastPlan& to);

  Requests& requests_;
  const Postbox& postbox_;
  BodySender& bodies_;
  CastChunks& chunks_;
};

}  // namespace meshbus
