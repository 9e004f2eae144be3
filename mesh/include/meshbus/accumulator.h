#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "meshbus/overlay.h"
#include "meshbus/rank_values.h"
#include "meshbus/reducer.h"
#include "meshbus/result.h"

/// Collects the replies of the ranks of a view and says when to pass them on.
///
///     Accumulator replies(*Reducers::builtin().find("sum"), view.num_ranks(),
///                         Accumulator::Deliver::snapshots);
///     replies.add(rank, ReplyValue(std::int64_t{3}), now);        // at each reply
///     wake_me_up_at(replies.next_due());
///     if (auto part = replies.take(now)) show(part->value);       // at that time
namespace [[gnu::visibility("default")]] meshbus {

/// The replies of some ranks, reduced to one value.
struct Partial {
  ReplyValue value;  ///< The reduced value.
  /// The ranks whose replies are in it.
  Overlay<bool> ranks;
  /// Whether these are all ranks.
  bool is_complete = false;
};

/// Pure: holds no clock, socket or thread; times come from the caller and do not go back.
class Accumulator {
 public:
  using Time = std::chrono::steady_clock::time_point;  ///< By a clock that is never set.

  /// What the owner gets, and when.
  enum class Deliver : std::uint8_t {
    parts,      ///< The replies since the last part: for hosts on the way, whose parent adds the
                ///< parts up.
    snapshots,  ///< All replies so far: for the program that asked.
    once,       ///< All replies, once every rank has replied.
  };
  /// How often parts and snapshots are handed out: the first one `first` after the first reply,
  /// then at intervals that double up to `longest`. The reply of the last rank is handed out at
  /// once.
  struct Pace {
    std::chrono::milliseconds first{1};     ///< From the first reply to the first snapshot.
    std::chrono::milliseconds longest{50};  ///< What the time between snapshots grows to.
  };

  Accumulator(Reducer reducer, std::uint64_t num_ranks, Deliver deliver,
              Pace pace);  ///< Expects the replies of `num_ranks` ranks.
  Accumulator(Reducer reducer, std::uint64_t num_ranks, Deliver deliver)
      : Accumulator(std::move(reducer), num_ranks, deliver, Pace()) {}

  /// A rank replied. A rank may do so again: it counts again, and with `overlay` the later one
  /// wins. Errors: out_of_range, and those of the reducer; then nothing has changed.
  Result<void> add(std::uint64_t rank, ReplyValue reply, Time now);
  /// Another accumulator handed out a part. Errors: as above.
  Result<void> add(const Partial& partial, Time now);

  /// When take() will have something; nothing while there is nothing new to tell.
  std::optional<Time> next_due() const noexcept;
  /// What is due, if anything is. No ranks: there is nothing ever, and is_complete() from the
  /// start.
  std::optional<Partial> take(Time now);

  /// Whether all ranks are in.
  bool is_complete() const noexcept { return num_heard_ == num_ranks_; }
  /// The ranks that have not replied.
  Overlay<bool> missing() const;

 private:
  Result<void> combine(const ReplyValue& update);
  void note(std::uint64_t begin, std::uint64_t end);
  void on_change(Time now);

  Reducer reducer_;
  std::uint64_t num_ranks_;
  Deliver deliver_;
  Pace pace_;
  std::optional<ReplyValue> value_;  // nothing: no reply, or none since the last part
  RankValues<bool> heard_;           // ever
  std::uint64_t num_heard_ = 0;
  RankValues<bool> part_;             // since the last part
  std::optional<Time> first_change_;  // that was not handed out
  std::optional<Time> last_taken_;
  std::chrono::milliseconds interval_;
  bool was_complete_ = false;  // and handed out
};

}  // namespace meshbus
