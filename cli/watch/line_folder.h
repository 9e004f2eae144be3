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
/// The promise: of what comes out, the lines whose ranks contain R, on one stream, are exactly the
/// lines that R wrote to that stream, in that order. For only what stands first in the queues of
/// its ranks is ever shown, for all ranks that have it there. Which one is that? The oldest of
/// those that no other rank will say later; when there is none, the oldest.
class LineFolder {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Sink = std::function<void(Stream, const RankSet&, const std::string& text)>;
  /// What waits for others, at most: beyond that lines go.
  static constexpr std::size_t kMaxBytes = 4 * 1024 * 1024;

  explicit LineFolder(Sink sink) : sink_(std::move(sink)) {}

  void add(std::uint64_t rank, Stream stream, std::string text, Time now);
  /// Lets go of what began to wait before `time`.
  void flush(Time time = Time::max());
  bool empty() const noexcept { return first_.empty(); }

 private:
  struct Ranks {
    std::map<std::uint64_t, std::size_t>
        waiting;                    ///< How often each rank has that line in its queue.
    std::set<std::uint64_t> first;  ///< Those that have it first.
  };
  using Lines = std::map<std::pair<Stream, std::string>, Ranks>;
  struct Waiting {
    Lines::iterator line;
    std::uint64_t number = 0;
    Time since;
  };
  using Queues = std::map<std::pair<std::uint64_t, Stream>, std::deque<Waiting>>;
  void note_first(Queues::iterator queue);
  void show(Lines::iterator line);

  Sink sink_;
  Lines lines_;
  Queues queues_;
  /// What stands first in each queue, by number: the oldest first.
  std::map<std::uint64_t, Queues::iterator> first_;
  std::uint64_t next_number_ = 1;
  std::size_t bytes_ = 0;
};

}  // namespace meshbus::cli
