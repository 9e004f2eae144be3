#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "meshbus/address.h"

namespace meshbus {

/// Where the ranks of a mesh lie: in blocks over its hosts (meshbus/proc_mesh_ref.h). Pure.
class RankLayout {
 public:
  /// What a host agent takes: kMostRanksPerHost of agent/host/model/mesh_spec.h.
  static constexpr std::uint64_t kMostPerHost = 16'384;
  /// Whether so many ranks can be on so many hosts; a host that says more is wrong.
  static bool can_be(std::uint64_t ranks, std::size_t hosts) {
    return ranks <= kMostPerHost * std::max<std::size_t>(hosts, 1);
  }

  void set(std::uint64_t ranks, std::vector<HostAddr> hosts) {
    ranks_ = ranks;
    hosts_ = std::move(hosts);
  }
  /// All ranks on that host, also of those of which nothing was heard.
  std::vector<std::uint64_t> ranks_on(const HostAddr& host) const {
    std::vector<std::uint64_t> found;
    if (hosts_.empty()) return found;
    const auto each = ranks_ / hosts_.size();
    const auto more = ranks_ % hosts_.size();
    std::uint64_t rank = 0;
    for (std::uint64_t index = 0; index < hosts_.size(); ++index) {
      const auto end = rank + each + (index < more ? 1 : 0);
      for (; rank < end; ++rank) {
        if (hosts_[index] == host) found.push_back(rank);
      }
    }
    return found;
  }

 private:
  std::uint64_t ranks_ = 0;
  std::vector<HostAddr> hosts_;
};

}  // namespace meshbus
