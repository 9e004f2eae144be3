#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/bytes.h"
#include "wire/control_generated.h"

namespace meshbus::host {

/// What the procs of one mesh wrote and their owner has not got yet (schemas/logs.fbs). Pure: bytes come in by add(), messages go out by
/// next().
///
/// Whole lines leave in the order in which they came; a line that is longer than max_chunk, and what is left at the end of a stream, leaves
/// as it is. At most `ahead` bytes are under way: beyond that next() has nothing until taken(), and wants_more() is false so that nobody
/// reads the pipes.
class OutputRelay {
 public:
  struct Limits {
    std::size_t ahead = 256 * 1024;
    std::size_t max_chunk = 64 * 1024;
    /// Of one message: small enough that many ranks share a frame, large enough for a flood.
    std::size_t message = 128 * 1024;
  };
  explicit OutputRelay(Limits limits) : limits_(limits) {}
  OutputRelay() : OutputRelay(Limits{}) {}

  void add(std::uint64_t rank, wire::Stream stream, Bytes bytes);
  /// That stream is at its end.
  void end_stream(std::uint64_t rank, wire::Stream stream);
  /// Nothing more will come from that rank. Once.
  void end_rank(std::uint64_t rank);

  /// Whether the pipes should be read.
  bool wants_more() const noexcept { return under_way_ + queued_ < limits_.ahead; }
  /// Whether something waits to be sent.
  bool has_items() const noexcept { return !items_.empty(); }
  /// The next message (without the mesh's name), or nothing.
  std::optional<wire::OutputT> next();
  /// The owner has written so much. More than is under way counts as all of it.
  void taken(std::uint64_t bytes);
  /// What is under way is lost, or nobody will say that it was taken: starts counting afresh. Returns how much that was.
  std::size_t forget_under_way();
  std::size_t under_way() const noexcept { return under_way_; }

 private:
  struct Item {
    std::uint64_t rank;
    wire::Stream stream;  // none: the rank is at its end
    std::string data;
  };
  void queue(std::uint64_t rank, wire::Stream stream, Bytes bytes);

  Limits limits_;
  std::deque<Item> items_;
  std::map<std::pair<std::uint64_t, wire::Stream>, std::string> partial_;
  std::size_t queued_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace meshbus::host
