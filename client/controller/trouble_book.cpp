#include "client/controller/trouble_book.h"

#include <utility>

namespace meshbus {

void TroubleBook::clear_all_but(const std::set<std::uint64_t>& standing,
                                const std::function<bool(std::uint64_t)>& is_meant) {
  for (auto& [rank, trouble] : troubles_) {
    const bool is_well = trouble.known.trouble() == wire::Trouble::none;
    if (is_well || standing.contains(rank) || !is_meant(rank)) continue;
    trouble.known = {rank, trouble.known.incarnation(), 0, 0, wire::Trouble::none, 0};
    trouble.stuck.reset();
  }
}

std::vector<wire::RankTrouble> TroubleBook::take_untold() {
  std::vector<wire::RankTrouble> changes;
  for (auto& [rank, trouble] : troubles_) {
    if (std::exchange(trouble.told, trouble.known.trouble()) != trouble.known.trouble())
      changes.push_back(trouble.known);
  }
  return changes;
}

std::shared_ptr<const wire::StuckHandlerT> TroubleBook::stuck(std::uint64_t rank) const {
  const auto found = troubles_.find(rank);
  return found == troubles_.end() ? nullptr : found->second.stuck;
}

const wire::RankTrouble* TroubleBook::find(std::uint64_t rank) const {
  const auto found = troubles_.find(rank);
  return found == troubles_.end() ? nullptr : &found->second.known;
}

}  // namespace meshbus
