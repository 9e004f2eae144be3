#include "client/src/monitors/trouble_changes.h"

#include <set>
#include <utility>

#include "client/src/base/wire_reports.h"
#include "wire/supervision_generated.h"

namespace meshbus {

std::vector<TroubleChange> take_troubles(RankTable& table, const HostAddr& from,
                                         const TroubleUpdate& update) {
  const auto& [troubles, stuck, whole] = update;
  std::vector<wire::RankTrouble> updates;
  for (flatbuffers::uoffset_t i = 0; troubles != nullptr && i < troubles->size(); ++i)
    updates.push_back(*troubles->Get(i));
  std::set<std::uint64_t> named;
  for (const auto& one : updates) named.insert(one.rank());
  for (flatbuffers::uoffset_t i = 0; whole != nullptr && i < whole->size(); ++i) {
    const auto rank = whole->Get(i)->rank();
    const bool is_well = rank >= table.size() || table.rank(rank).trouble == Trouble::none;
    if (is_well || named.contains(rank)) continue;
    updates.emplace_back(rank, table.rank(rank).incarnation, 0, 0, wire::Trouble::none, 0);
  }
  std::vector<TroubleChange> changes;
  for (const auto& one : updates) {
    const auto before = one.rank() < table.size() ? table.rank(one.rank()).trouble : Trouble::none;
    if (table.apply(from, one, find_stuck(stuck, one.rank()).get()))
      changes.push_back({before, table.rank(one.rank())});
  }
  return changes;
}

}  // namespace meshbus
