#pragma once

#include "client/controller/watch_event.h"
#include "meshbus/controller.h"

namespace meshbus {

/// The rank that an event is about, with its exit report when it has ended.
RankReport to_rank_report(const WatchEvent& event);

/// As the public header shows it.
SupervisionEvent to_supervision_event(const WatchEvent& event);

/// A host that goes or comes back is told once for itself and once for each of its meshes: whether this is one that a listener of every
/// mesh can do without.
bool is_repeated_for_mesh(const WatchEvent& event);

}  // namespace meshbus
