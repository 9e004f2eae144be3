#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bytes.h"
#include "wire/control_generated.h"

namespace meshbus::host {

/// What the procs of one mesh wrote and their owner has not got yet (schemas/logs.fbs). Pure: bytes come in by add(), messages go out by
/// next(). What has left is kept until it is taken, so that it can be sent again; each byte has its position in its stream, so that who
/// gets it twice can tell.
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
  explicit OutputRelay(Limits limits);
  OutputRelay() : OutputRelay(Limits{}) {}

  void add(std::uint64_t rank, wire::Stream stream, Bytes bytes);
  /// So many bytes of that stream were taken in another life of this agent: the next ones come behind them.
  void start_at(std::uint64_t rank, wire::Stream stream, std::uint64_t position) { streams_[{rank, stream}].position = position; }
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
  /// Of one stream: everything before `end` is with the owner.
  struct Taken {
    std::uint64_t rank;
    wire::Stream stream;
    std::uint64_t end;
  };
  /// The owner has written so much of what came with that session. More than is under way counts as all of it.
  std::vector<Taken> taken(std::uint64_t bytes, std::uint64_t session);
  /// What is under way may be lost: it will be sent again, in a new session. Returns how much that is.
  std::size_t send_again();
  std::size_t under_way() const noexcept { return under_way_; }

 private:
  struct Item {
    std::uint64_t rank;
    wire::Stream stream;  // none: the rank is at its end
    std::string data;
    std::uint64_t position = 0;
    std::size_t taken = 0;  // of what is under way
  };
  struct Partial {
    std::string text;
    std::uint64_t position = 0;  // of its first byte
  };
  void queue(std::uint64_t rank, wire::Stream stream, Partial& from, Bytes bytes);

  Limits limits_;
  std::deque<Item> items_;
  std::deque<Item> sent_;
  std::map<std::pair<std::uint64_t, wire::Stream>, Partial> streams_;
  std::uint64_t session_;
  std::size_t queued_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace meshbus::host
