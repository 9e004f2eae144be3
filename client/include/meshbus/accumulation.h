#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>

#include "meshbus/overlay.h"
#include "meshbus/reducer.h"
#include "meshbus/result.h"

namespace meshbus {

/// What ranks of a view have answered, reduced. Every rank counts once: it has a part in `value`,
/// or an error, or, in a snapshot, is still out.
struct Accumulation {
  std::optional<ReplyValue> value;        ///< Nothing: no rank has a part. to_text() prints it.
  Overlay<bool> ranks;                    ///< Ranks that have a part, by ordinal in the view.
  std::map<std::uint64_t, Error> errors;  ///< Ranks that have none, and why.
  std::uint64_t num_ranks = 0;            ///< The ranks of the view.
  std::uint64_t num_messages =
      0;  ///< Messages that brought it: one from each host, and one for each part on the way.
  bool is_complete() const { return ranks.num_ranks() == num_ranks; }  ///< Whether all have a part.
};

/// How answers are accumulated.
struct AccumulateOptions {
  std::chrono::milliseconds deadline = std::chrono::seconds(
      30);  ///< For the ranks. Their hosts get a second more to say what they have.
  /// If set, called in the thread that waits, with what has come so far: at first 1 ms after there
  /// is something, then at growing intervals of up to 50 ms. False: that is enough.
  std::function<bool(const Accumulation& so_far)> on_snapshot = {};
  /// Ends it early, from any thread.
  std::stop_token stop = {};
  /// Reducers of one's own, besides those of Reducers::builtin(). They are known here alone: every
  /// rank then sends its answer to this launcher, as call() has it; on_snapshot is not called, and
  /// `stop` not looked at.
  const Reducers* reducers = nullptr;
};

}  // namespace meshbus
