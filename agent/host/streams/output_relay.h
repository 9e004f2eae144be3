#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Holds what the procs of one mesh wrote and their owner has not taken yet (schemas/logs.fbs).
/// Pure: add() takes bytes, next() gives messages, which are kept until taken(); resend() begins
/// again with the first one that is not taken.
///
/// Whole lines leave in the order in which they came; a line that is longer than max_chunk, and
/// what is left at the end of a stream, leaves as it is. At most `ahead` bytes are under way:
/// beyond that next() has nothing until taken(), and wants_more() is false so that the pipes are
/// not read.
class OutputRelay {
 public:
  struct Limits {
    std::size_t ahead = 256 * 1024;
    std::size_t max_chunk = 64 * 1024;
    /// Bytes of one message: small enough that many ranks share a frame, large enough for a flood.
    std::size_t message = 128 * 1024;
  };
  explicit OutputRelay(Limits limits) : limits_(limits) {}
  OutputRelay() : OutputRelay(Limits{}) {}

  void add(std::uint64_t rank, wire::Stream stream, Bytes bytes);
  /// The stream goes on at this offset; what is before it is taken.
  void restore(std::uint64_t rank, wire::Stream stream, std::uint64_t offset);
  /// The stream is at its end.
  void end_stream(std::uint64_t rank, wire::Stream stream);
  /// Nothing more will come from that rank. Call it once.
  void end_rank(std::uint64_t rank);

  /// Whether the pipes should be read.
  bool wants_more() const noexcept { return under_way() + queued_ < limits_.ahead; }
  /// Whether something of that rank is not taken, or its end not known.
  bool has(std::uint64_t rank) const;
  /// Whether something waits to be sent.
  bool has_items() const noexcept { return items_.size() > sent_; }
  /// The next message (without the mesh's name), or nothing.
  std::optional<wire::OutputT> next();
  /// The owner has written so many more bytes of what was sent first. More than is under way counts
  /// as all of it.
  void taken(std::uint64_t bytes);
  /// The owner has written that stream up to this offset.
  void taken(std::uint64_t rank, wire::Stream stream, std::uint64_t offset);
  /// The owner knows of the end of that rank.
  void end_known(std::uint64_t rank);
  /// How far a stream is taken.
  struct Progress {
    std::uint64_t rank;
    wire::Stream stream;
    std::uint64_t taken;
  };
  /// What taken() has changed since this was asked last: those bytes need not be kept for another
  /// agent.
  std::vector<Progress> take_progress() { return std::exchange(progress_, {}); }
  /// What is under way may be lost: next() begins again with it. Returns how many bytes that are.
  std::size_t resend();
  std::size_t under_way() const noexcept { return sent_bytes_ - credit_; }
  /// The offset up to which the owner has taken that stream.
  std::uint64_t taken_of(std::uint64_t rank, wire::Stream stream) const;

 private:
  using Id = std::pair<std::uint64_t, wire::Stream>;
  struct Item {
    std::uint64_t rank;
    wire::Stream stream;  // none: the rank is at its end
    std::uint64_t offset;
    std::string data;
  };
  struct Stream {
    std::uint64_t end = 0;  // of what was queued
    std::uint64_t taken = 0;
    std::string partial;
  };
  void queue(std::uint64_t rank, wire::Stream stream, Bytes bytes);
  bool is_taken(const Item& item) const;
  void pop();
  void pop_taken();

  Limits limits_;
  /// The first sent_ of them are under way.
  std::deque<Item> items_;
  std::size_t sent_ = 0;
  std::size_t sent_bytes_ = 0;
  std::size_t credit_ = 0;  // of what is under way, bytes that are taken, but not yet a whole item
  std::size_t queued_ = 0;
  std::map<Id, Stream> streams_;
  std::set<std::uint64_t> known_ends_;
  std::vector<Progress> progress_;
};

}  // namespace meshbus::host
