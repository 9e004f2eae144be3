#pragma once

#include <vector>

#include <flatbuffers/vector.h>

#include "client/src/monitors/rank_table.h"
#include "meshbus/rank_report.h"
#include "wire/forward.h"

namespace meshbus {

/// A live rank that is in another trouble than before (spec 8.7).
struct TroubleChange {
  Trouble before = Trouble::none;
  RankReport rank;
};

/// Writes into the table what a host says of ranks in trouble, and returns what is new of it.
/// `whole`: ranks of that host of which `troubles` are all that are in trouble; null: only changes.
std::vector<TroubleChange> take_troubles(
    RankTable& table, const HostAddr& from,
    const flatbuffers::Vector<const wire::RankTrouble*>* troubles,
    const flatbuffers::Vector<const wire::RankState*>* whole);

}  // namespace meshbus
