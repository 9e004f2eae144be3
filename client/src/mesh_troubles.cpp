/// What hosts find wrong with ranks that live (spec 8.7).
#include <set>

#include "client/src/mesh_monitor.h"
#include "common/base/log.h"
#include "wire/ranks_generated.h"

namespace meshbus {

void MeshMonitor::on_troubles(const HostAddr& from, const flatbuffers::Vector<const wire::RankTrouble*>* troubles,
                              const flatbuffers::Vector<const wire::RankState*>* whole) {
  std::vector<wire::RankTrouble> news;
  for (flatbuffers::uoffset_t i = 0; troubles != nullptr && i < troubles->size(); ++i) news.push_back(*troubles->Get(i));
  std::set<std::uint64_t> named;
  for (const auto& one : news) named.insert(one.rank());
  const std::lock_guard lock(mutex_);
  for (flatbuffers::uoffset_t i = 0; whole != nullptr && i < whole->size(); ++i) {
    const auto rank = whole->Get(i)->rank();
    if (rank >= table_.size() || table_.rank(rank).trouble == Trouble::none || named.contains(rank)) continue;
    news.emplace_back(rank, table_.rank(rank).incarnation, 0, 0, wire::Trouble::none, 0);
  }
  for (const auto& one : news) {
    const bool was_frozen = one.rank() < table_.size() && table_.rank(one.rank()).trouble == Trouble::frozen;
    if (!table_.apply(from, one)) continue;
    ++version_;
    const auto& rank = table_.rank(one.rank());
    const std::string who = "mesh " + name() + ": rank " + std::to_string(rank.rank);
    if (rank.trouble == Trouble::frozen) {
      log::warn(who + " is frozen: " + rank.trouble_reason);
    } else if (was_frozen) {
      log::warn(who + " answers again");
    }
  }
}

}  // namespace meshbus
