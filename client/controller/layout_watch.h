#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "client/controller/rank_layout.h"
#include "common/address/mesh_layout.h"

namespace meshbus {

/// Follows the layout of a mesh that its owner resizes: the present one, and the one that a host
/// has reported and that waits for the ranks that are not in it. Pure.
class LayoutWatch {
 public:
  /// The first layout that a host reports.
  void begin(std::uint64_t ranks, std::vector<HostAddr> hosts, std::uint32_t revision) {
    present_.set(ranks, std::move(hosts));
    revision_ = revision;
    is_begun_ = true;
  }
  /// A host reports this layout. One that is older than a known one, or that cannot be, counts for
  /// nothing.
  void take(const MeshLayout& layout) {
    const auto known = next_ ? next_->revision : revision_;
    const bool can_be =
        !layout.hosts.empty() && RankLayout::can_be(layout.region.num_ranks(), layout.hosts.size());
    if (is_begun_ && can_be && layout.revision > known) next_ = layout;
  }
  /// The layout that waits becomes the present one, unless it would drop a rank of which `is_kept`
  /// is true.
  template <typename IsKept>
  std::optional<MeshLayout> take_next(IsKept is_kept) {
    if (!next_ || is_kept(next_->region.num_ranks())) return std::nullopt;
    auto layout = std::exchange(next_, std::nullopt);
    revision_ = layout->revision;
    present_.set(layout->region.num_ranks(), layout->hosts);
    return layout;
  }

  const RankLayout& present() const noexcept { return present_; }
  /// The ranks from this one on are about to be taken out of the mesh.
  std::uint64_t first_leaving() const {
    return next_ ? next_->region.num_ranks() : std::numeric_limits<std::uint64_t>::max();
  }

 private:
  RankLayout present_;
  std::uint32_t revision_ = 0;
  std::optional<MeshLayout> next_;
  bool is_begun_ = false;
};

}  // namespace meshbus
