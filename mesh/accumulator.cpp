#include "meshbus/accumulator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace meshbus {
namespace {

Overlay<bool> ranks_that(const RankValues<bool>& ranks, bool meant) {
  std::vector<RankRun<bool>> runs;
  ranks.for_each_run([&](std::uint64_t begin, std::uint64_t end, bool value) {
    if (value == meant) runs.push_back({begin, end, true});
  });
  return Overlay<bool>::of(std::move(runs));
}

Error unknown_rank(std::uint64_t rank, std::uint64_t num_ranks) {
  return {ErrorCode::out_of_range, "replies: expected ranks below " + std::to_string(num_ranks) +
                                       ", found one of rank " + std::to_string(rank)};
}

}  // namespace

Accumulator::Accumulator(Reducer reducer, std::uint64_t num_ranks, Deliver deliver, Pace pace)
    : reducer_(std::move(reducer)),
      num_ranks_(num_ranks),
      deliver_(deliver),
      pace_(pace),
      heard_(num_ranks, false),
      part_(num_ranks, false),
      interval_(pace.first) {}

Result<void> Accumulator::combine(const ReplyValue& update) {
  if (value_) return reducer_.combine(*value_, update);
  value_ = update;
  return {};
}

void Accumulator::note(std::uint64_t begin, std::uint64_t end) {
  heard_.set(begin, end, true, [this](bool, std::uint64_t count) { num_heard_ += count; });
  if (deliver_ == Deliver::parts) part_.set(begin, end, true, [](bool, std::uint64_t) {});
}

void Accumulator::on_change(Time now) {
  if (!first_change_) first_change_ = now;
}

Result<void> Accumulator::add(std::uint64_t rank, ReplyValue reply, Time now) {
  if (rank >= num_ranks_) return fail(unknown_rank(rank, num_ranks_));
  const Result<ReplyValue> lifted = reducer_.lift(std::move(reply));
  if (!lifted) return fail(lifted.error().within("reply of rank " + std::to_string(rank)));
  if (Result<void> done = combine(*lifted); !done)
    return fail(done.error().within("reply of rank " + std::to_string(rank)));
  note(rank, rank + 1);
  on_change(now);
  return {};
}

Result<void> Accumulator::add(const Partial& partial, Time now) {
  const auto& runs = partial.ranks.runs();
  if (runs.empty()) return {};
  if (runs.back().end > num_ranks_) return fail(unknown_rank(runs.back().end - 1, num_ranks_));
  if (Result<void> fine = reducer_.check(partial.value); !fine) return fine;
  if (Result<void> done = combine(partial.value); !done) return done;
  for (const auto& run : runs) note(run.begin, run.end);
  on_change(now);
  return {};
}

std::optional<Accumulator::Time> Accumulator::next_due() const noexcept {
  if (!first_change_) return std::nullopt;
  if (is_complete() && !was_complete_) return first_change_;
  if (deliver_ == Deliver::once) return std::nullopt;
  const Time soonest = *first_change_ + pace_.first;
  return last_taken_ ? std::max(soonest, *last_taken_ + interval_) : soonest;
}

std::optional<Partial> Accumulator::take(Time now) {
  const std::optional<Time> due = next_due();
  if (!due || now < *due) return std::nullopt;
  if (last_taken_) interval_ = std::min(interval_ * 2, pace_.longest);
  last_taken_ = now;
  first_change_.reset();
  was_complete_ = is_complete();
  if (deliver_ != Deliver::parts) return Partial{*value_, ranks_that(heard_, true), is_complete()};
  Partial part{std::move(*value_), ranks_that(part_, true), is_complete()};
  value_.reset();
  part_ = RankValues<bool>(num_ranks_, false);
  return part;
}

Overlay<bool> Accumulator::missing() const {
  return ranks_that(heard_, false);
}

}  // namespace meshbus
