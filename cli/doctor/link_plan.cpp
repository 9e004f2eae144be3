#include "cli/doctor/link_plan.h"

#include <algorithm>
#include <set>

namespace meshbus::cli::doctor {
namespace {

/// All pairs of so many hosts take 7 rounds.
constexpr std::size_t kFewHosts = 8;

using Pair = std::pair<std::size_t, std::size_t>;

std::vector<Pair> ring_pairs(std::size_t count) {
  std::set<Pair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto j : {(i + 1) % count, (i + count / 2) % count})
      pairs.insert({std::min(i, j), std::max(i, j)});
  }
  return {pairs.begin(), pairs.end()};
}

/// By the circle method: one host stays, the others go round. Rounds of all pairs.
std::vector<Round> all_rounds(std::size_t count) {
  const std::size_t even = count + count % 2;
  std::vector<Round> rounds;
  for (std::size_t round = 0; round + 1 < even; ++round) {
    Round pairs;
    for (std::size_t i = 0; i < even / 2; ++i) {
      const auto at = [&](std::size_t place) {
        return place == 0 ? std::size_t{0} : 1 + (place - 1 + round) % (even - 1);
      };
      const auto a = std::min(at(i), at(even - 1 - i)), b = std::max(at(i), at(even - 1 - i));
      if (b < count) pairs.emplace_back(a, b);
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

/// Each pair into the first round that has neither of its hosts.
std::vector<Round> packed(const std::vector<Pair>& pairs) {
  std::vector<Round> rounds;
  std::vector<std::set<std::size_t>> taken;
  for (const auto& pair : pairs) {
    std::size_t round = 0;
    while (round < rounds.size() &&
           (taken[round].contains(pair.first) || taken[round].contains(pair.second)))
      ++round;
    if (round == rounds.size()) {
      rounds.emplace_back();
      taken.emplace_back();
    }
    rounds[round].push_back(pair);
    taken[round].insert({pair.first, pair.second});
  }
  return rounds;
}

}  // namespace

std::vector<Round> plan_links(std::size_t count) {
  if (count < 2) return {};
  return count <= kFewHosts ? all_rounds(count) : packed(ring_pairs(count));
}

}  // namespace meshbus::cli::doctor
