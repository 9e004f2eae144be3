#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace meshbus::cli::doctor {

/// Pairs of hosts that are measured at the same time: no host is in two of them.
using Round = std::vector<std::pair<std::size_t, std::size_t>>;

/// Which pairs of `count` hosts are measured, in few rounds: every pair of few hosts; of many, each
/// with the next one in a ring, and with the one half way round. Pure.
std::vector<Round> plan_links(std::size_t count);

}  // namespace meshbus::cli::doctor
