#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "wire/forward.h"
#include "wire/supervision_generated.h"

namespace meshbus {

/// The troubles of live ranks (spec 8.7), and which of them were reported. Pure.
class TroubleBook {
 public:
  /// A rank that is ready is in that trouble, or in none any more.
  void take(const wire::RankTrouble& trouble,
            std::shared_ptr<const wire::StuckHandlerT> stuck = nullptr) {
    auto& known = troubles_[trouble.rank()];
    known.known = trouble;
    known.stuck = std::move(stuck);
  }
  /// Ranks of `is_meant` that are not in `standing` are in no trouble any more.
  void clear_all_but(const std::set<std::uint64_t>& standing,
                     const std::function<bool(std::uint64_t rank)>& is_meant);
  /// The rank is not ready any more, or has begun another incarnation.
  void forget(std::uint64_t rank) { troubles_.erase(rank); }
  /// Returns the changes that were not reported; they count as reported then.
  std::vector<wire::RankTrouble> take_untold();
  /// The trouble of a rank that is, or was, in one since it is ready. Null: it never was.
  const wire::RankTrouble* find(std::uint64_t rank) const;
  /// The handler, with Trouble::stuck. Null: none is known.
  std::shared_ptr<const wire::StuckHandlerT> stuck(std::uint64_t rank) const;

 private:
  struct Trouble {
    wire::RankTrouble known;
    std::shared_ptr<const wire::StuckHandlerT> stuck;
    wire::Trouble told = wire::Trouble::none;
  };
  std::map<std::uint64_t, Trouble> troubles_;
};

}  // namespace meshbus
