#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace meshbus {

/// How many letters must be inserted, left out, replaced or swapped with their neighbour to make
/// one word of the other.
inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < from.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      row[j + 1] = std::min({last[j] + (from[i] == to[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j])
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

/// The candidate that a user most likely meant by typing `word`; empty when none is near (more than
/// a third of the letters differ). `candidates` is any range of things that convert to
/// std::string_view and that outlive the answer.
template <typename Candidates>
std::string_view did_you_mean(std::string_view word, const Candidates& candidates) {
  std::string_view best;
  if (word.size() > 64)
    return best;  // nobody means a short word by that, and the distance would cost time
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& one : candidates) {
    const std::string_view candidate(one);
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace meshbus
