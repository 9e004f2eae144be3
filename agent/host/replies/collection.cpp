#include "agent/host/replies/collection.h"

#include <algorithm>

#include "common/wire/control.h"

namespace meshbus::host {
namespace {

/// Bytes of words of all errors of one collection together. Further errors have no words.
constexpr std::size_t kWordsLimit = std::size_t{256} * 1024;

bool grows(const ReplyValue& value) {
  return std::holds_alternative<TextOverlay>(value) ||
         std::holds_alternative<StatusOverlay>(value) || std::holds_alternative<std::string>(value);
}

}  // namespace

Collection::Collection(Reducer reducer, std::uint64_t num_ranks)
    : reducer_(std::move(reducer)),
      accumulator_(reducer_, num_ranks, Accumulator::Deliver::parts),
      is_open_(num_ranks, true),
      num_open_(num_ranks) {}

Result<void> Collection::add(std::uint64_t rank, Bytes answer, Time now) {
  if (answer.size() > kCollectedAnswerLimit)
    return fail(ErrorCode::too_large, "an answer of " + std::to_string(answer.size()) + " bytes");
  auto value = reducer_.read(answer);
  if (!value) return fail(value.error());
  const std::size_t growth = grows(*value) && reducer_.name != "count" ? answer.size() : 0;
  if (growth > kCollectedAnswerLimit - growth_) {
    return fail(ErrorCode::too_large, "reducer " + reducer_.name +
                                          ": the answers of one host have " +
                                          std::to_string(kCollectedAnswerLimit) + " bytes at most");
  }
  auto added = accumulator_.add(rank, std::move(*value), now);
  if (added) growth_ += growth;
  return added;
}

void Collection::settle(std::uint64_t rank, const Result<Bytes>& answer, Time now) {
  if (!is_open(rank)) return;
  is_open_[rank] = false;
  --num_open_;
  const auto done = answer ? add(rank, *answer, now) : Result<void>(fail(answer.error()));
  if (!done) note(rank, done.error());
}

void Collection::settle_rest(const Error& error) {
  for (std::uint64_t rank = 0; num_open_ > 0; ++rank) {
    if (is_open_[rank]) settle(rank, fail(error), Time());
  }
}

void Collection::note(std::uint64_t rank, const Error& error) {
  Words words{error.code(), cut_text(error.detail(), kCollectedTextLimit)};
  auto found = problems_.find(words);
  if (found == problems_.end()) {
    words_ += words.second.size();
    if (words_ > kWordsLimit) words.second.clear();
    found = problems_.try_emplace(std::move(words)).first;
  }
  auto& ranks = found->second;
  const auto after =
      std::upper_bound(ranks.begin(), ranks.end(), rank,
                       [](std::uint64_t at, const RankBlock& block) { return at < block.begin; });
  if (after != ranks.begin() && std::prev(after)->end == rank) {
    ++std::prev(after)->end;
    if (after != ranks.end() && after->begin == rank + 1) {
      std::prev(after)->end = after->end;
      ranks.erase(after);
    }
  } else if (after != ranks.end() && after->begin == rank + 1) {
    --after->begin;
  } else {
    ranks.insert(after, {rank, rank + 1});
  }
}

std::optional<Collection::Time> Collection::next_due() const noexcept {
  return is_complete() ? std::nullopt : accumulator_.next_due();
}

Collected Collection::take(Time now) {
  Collected out{.reduced = {}, .problems = {}, .parts = num_parts_++};
  if (const auto due = accumulator_.next_due())
    out.reduced = accumulator_.take(std::max(now, *due));
  for (auto& [words, ranks] : problems_)
    out.problems.push_back({Error(words.first, words.second), std::move(ranks)});
  problems_.clear();
  return out;
}

}  // namespace meshbus::host
