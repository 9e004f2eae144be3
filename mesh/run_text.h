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

/// Reads `0..5`, spaces around it included. Errors: parse_error, also for an interval without ranks.
Result<Placed<char>> parse_interval(text::Scanner& scanner);

/// Puts runs in order. Errors: parse_error at the run that has a rank of an earlier one in the text.
template <typename T>
Result<Overlay<T>> collect(const text::Scanner& scanner, std::vector<Placed<T>> placed) {
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.run.begin < b.run.begin; });
  std::vector<RankRun<T>> runs;
  runs.reserve(placed.size());
  std::size_t previous = 0;
  for (auto& [run, position] : placed) {
    if (!runs.empty() && run.begin < runs.back().end)
      return scanner.problem_at(std::max(position, previous), "rank " + std::to_string(run.begin) + " occurs twice");
    previous = position;
    append_run(runs, run.begin, run.end, std::move(run.value));
  }
  return Overlay<T>::of(std::move(runs));
}

/// Reads a whole text of `0..5=VALUE,5..10=VALUE`. `parse_value(scanner)` reads a value.
template <typename T, typename ParseValue>
Result<Overlay<T>> parse_overlay(text::Scanner scanner, ParseValue parse_value) {
  std::vector<Placed<T>> placed;
  scanner.skip_spaces();
  while (!scanner.at_end()) {
    const auto interval = parse_interval(scanner);
    if (!interval) return fail(interval.error());
    if (Result<void> equals = scanner.expect('='); !equals) return fail(std::move(equals).error());
    scanner.skip_spaces();
    Result<T> value = parse_value(scanner);
    if (!value) return fail(std::move(value).error());
    placed.push_back({{interval->run.begin, interval->run.end, std::move(*value)}, interval->position});
    scanner.skip_spaces();
    if (scanner.at_end()) break;
    if (!scanner.accept(',')) return scanner.unexpected("',' or the end");
    scanner.skip_spaces();
    if (scanner.at_end()) return scanner.unexpected("ranks (0..5)");
  }
  return collect(scanner, std::move(placed));
}

/// `append_value(out, value)` writes a value.
template <typename T, typename AppendValue>
std::string print_overlay(const Overlay<T>& overlay, AppendValue append_value) {
  std::string out;
  for (const RankRun<T>& run : overlay.runs()) {
    if (!out.empty()) out += ',';
    out += interval(run.begin, run.end) + '=';
    append_value(out, run.value);
  }
  return out;
}

}  // namespace meshbus::run_text
