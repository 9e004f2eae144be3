#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mesh/text.h"
#include "meshbus/overlay.h"

/// What the texts of overlays and of grouped ranks share. Not a public header.
namespace meshbus::run_text {

/// "0..5"
inline std::string interval(std::uint64_t begin, std::uint64_t end) {
  return std::to_string(begin) + ".." + std::to_string(end);
}

/// A run and where in the text it stands.
template <typename T>
struct Placed {
  RankRun<T> run;
  std::size_t position;
};

/// Reads `0..5`, spaces around it included. Errors: parse_error, also for an interval without
/// ranks.
Result<Placed<char>> parse_interval(text::Scanner& scanner);

/// Puts runs in order. Errors: parse_error at the run that has a rank of an earlier one in the
/// text.
template <typename T>
Result<Overlay<T>> collect(const text::Scanner& scanner, std::vector<Placed<T>> placed) {
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.run.begin < b.run.begin; });
  std::vector<RankRun<T>> runs;
  runs.reserve(placed.size());
  std::size_t previous = 0;
  for (auto& [run, position] : placed) {
    if (!runs.empty() && run.begin < runs.back().end)
      return scanner.problem_at(std::max(position, previous),
                                "rank " + std::to_string(run.begin) + " occurs twice");
    previous = position;
    append_run(runs, run.begin, run.end, std::move(run.value));
  }
  return Overlay<T>::of(std::move(runs));
}

}  // namespace meshbus::run_text
