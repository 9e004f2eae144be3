#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "meshbus/proc_mesh.h"
#include "meshbus/rank_report.h"

namespace meshbus::cli {

/// Brings the same line of several ranks together. Pure.
///
/// The promise: of what comes out, the lines whose ranks contain R, on one stream, are exactly the lines that R wrote to that stream, in
/// that order. So a line may join an equal one only when that one stands behind the last line of its own rank; it joins the first such.
class LineFolder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Sink = std::function<void(Stream, const RankSet&, const std::string& text)>;
  /// What waits for others, at most: beyond that the oldest lines go.
  static constexpr std::size_t max_bytes = 4 * 1024 * 1024;

  explicit LineFolder(Sink sink) : sink_(std::move(sink)) {}

  void add(std::uint64_t rank, Stream stream, std::string text, Time now);
  /// Lets go of what began to wait before `time`.
  void flush(Time time = Time::max());
  bool empty() const noexcept { return lines_.empty(); }

 private:
  using Text = std::pair<Stream, std::string>;
  struct Line {
    std::map<Text, std::set<std::uint64_t>>::iterator text;
    std::set<std::uint64_t> ranks;
    Time since;
  };
  void pop();

  Sink sink_;
  /// In the order in which they are shown; the first one has number first_.
  std::deque<Line> lines_;
  std::uint64_t first_ = 1;
  std::size_t bytes_ = 0;
  /// Text -> numbers of its lines.
  std::map<Text, std::set<std::uint64_t>> numbers_;
  /// The number of the last line of each rank and stream.
  std::map<std::pair<std::uint64_t, Stream>, std::uint64_t> last_;
};

}  // namespace meshbus::cli
