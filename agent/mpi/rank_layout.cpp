#include "agent/mpi/rank_layout.h"

#include <algorithm>

namespace meshbus::mpi {

RankBlock RankLayout::block_of(std::uint64_t host) const noexcept {
  const auto each = ranks_ / hosts_;
  const auto larger = ranks_ % hosts_;
  const auto begin = host * each + std::min(host, larger);
  return {begin, begin + each + (host < larger ? 1 : 0)};
}

std::uint64_t RankLayout::host_of(std::uint64_t rank) const noexcept {
  const auto each = ranks_ / hosts_;
  const auto larger = ranks_ % hosts_;
  const auto in_larger = larger * (each + 1);
  return rank < in_larger ? rank / (each + 1) : larger + (rank - in_larger) / each;
}

std::vector<std::uint64_t> RankLayout::used_hosts() const {
  std::vector<std::uint64_t> used;
  for (std::uint64_t host = 0; host < hosts_ && block_of(host).size() > 0; ++host)
    used.push_back(host);
  return used;
}

std::string RankLayout::process_mapping() const {
  const auto each = ranks_ / hosts_;
  const auto larger = ranks_ % hosts_;
  const auto triple = [](std::uint64_t first, std::uint64_t hosts, std::uint64_t ranks) {
    return ",(" + std::to_string(first) + "," + std::to_string(hosts) + "," +
           std::to_string(ranks) + ")";
  };
  std::string text = "(vector";
  if (larger > 0) text += triple(0, larger, each + 1);
  if (each > 0) text += triple(larger, hosts_ - larger, each);
  return text + ")";
}

}  // namespace meshbus::mpi
