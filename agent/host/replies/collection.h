#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/collecting.h"
#include "meshbus/accumulator.h"

namespace meshbus::host {

/// The answers of ranks of this host to one question: reduced, and for each rank that has no part
/// in it the error. Each rank counts once. Ranks are counted from 0. Pure: holds no clock, socket
/// or thread.
class Collection {
 public:
  using Time = Accumulator::Time;

  Collection(Reducer reducer, std::uint64_t num_ranks);

  /// The answer of that rank, or its error. A rank that is settled already, or is not there,
  /// changes nothing.
  void settle(std::uint64_t rank, const Result<Bytes>& answer, Time now);
  /// Settles all ranks that are open.
  void settle_rest(const Error& error);

  bool is_open(std::uint64_t rank) const noexcept {
    return rank < is_open_.size() && is_open_[rank];
  }
  std::uint64_t num_ranks() const noexcept { return is_open_.size(); }
  /// Whether all ranks are settled.
  bool is_complete() const noexcept { return num_open_ == 0; }
  /// When a part is due, while it is not complete; see Accumulator::Pace.
  std::optional<Time> next_due() const noexcept;
  /// What has come since the last call.
  Collected take(Time now);

 private:
  Result<void> add(std::uint64_t rank, Bytes answer, Time now);
  void note(std::uint64_t rank, const Error& error);

  Reducer reducer_;
  Accumulator accumulator_;
  std::vector<bool> is_open_;
  std::uint64_t num_open_;
  std::size_t growth_ = 0;  // bytes of answers that stay as long as they are
  using Words = std::pair<ErrorCode, std::string>;
  std::map<Words, std::vector<RankBlock>> problems_;  // not taken yet
  std::size_t words_ = 0;                             // bytes of them, those taken included
  std::uint32_t num_parts_ = 0;
};

}  // namespace meshbus::host
