#pragma once

#include "client/controller/watch_event.h"
#include "meshbus/controller.h"

namespace meshbus {

/// The rank that an event is about, with its exit report when it has ended.
RankReport to_rank_report(const WatchEvent& event);

/// As the public header shows it.
SupervisionEvent to_supervision_event(const WatchEvent& event);

/// A host that goes or comes back is reported once for itself and once for each of its meshes:
/// whether this event is redundant for a subscriber to every mesh.
bool is_repeated_for_mesh(const WatchEvent& event);

}  // namespace meshbus
