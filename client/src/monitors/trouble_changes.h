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

/// What a host says of ranks in trouble in one message; null is none.
struct TroubleUpdate {
  const flatbuffers::Vector<const wire::RankTrouble*>* troubles = nullptr;
  const flatbuffers::Vector<flatbuffers::Offset<wire::StuckHandler>>* stuck = nullptr;
  /// Ranks of that host of which `troubles` are all that are in trouble; null: only changes.
  const flatbuffers::Vector<const wire::RankState*>* whole = nullptr;
};

/// Writes it into the table, and returns what is new of it.
std::vector<TroubleChange> take_troubles(RankTable& table, const HostAddr& from,
                                         const TroubleUpdate& update);

}  // namespace meshbus
