#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/forward.h"

namespace meshbus::host {

/// An output stream of a mesh: rank, stdout or stderr.
using StreamId = std::pair<std::uint64_t, wire::Stream>;

/// Where a LogReader gets bytes from. They are kept within bounds: a reader that comes late finds
/// them gone.
class LogSource {
 public:
  virtual ~LogSource() = default;
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  /// At most so many bytes at that offset, or at the first one after it that is kept; none when
  /// there are none.
  virtual Piece read(const StreamId& stream, std::uint64_t offset, std::size_t most) = 0;
  /// How much that stream has had.
  virtual std::uint64_t end(const StreamId& stream) = 0;
  /// Nothing more will come from it.
  virtual bool is_ended(const StreamId& stream) = 0;
};

/// One reader of the output of a mesh (schemas/logs.fbs: StreamLogs, Log). It holds no bytes, only
/// how far it is in each stream, so a stuck one costs next to nothing; what is under way is known
/// by its offsets, and read again if need be. Pure.
class LogReader {
 public:
  struct Options {
    std::uint64_t stream = 0;  ///< Its number, for the messages.
    bool follow = false;
    std::size_t window = 256 * 1024;
  };
  /// Largest Log, and what each chunk counts beside its bytes.
  static constexpr std::size_t kMessageSize = 64 * 1024;
  static constexpr std::size_t kChunkCost = 64;

  explicit LogReader(Options options) : options_(options) {}

  bool follows() const noexcept { return options_.follow; }
  bool has(const StreamId& stream) const { return cursors_.contains(stream); }
  /// Reads that stream from `offset`; without follow no further than to where it is now.
  void add(const StreamId& stream, std::uint64_t offset, LogSource& source);
  /// The stream has more, or has ended.
  void on_output(const StreamId& stream);
  /// The next message (without the mesh's name), or nothing: everything is sent, or the window is
  /// full. `is_last`: no stream will be added any more.
  std::optional<wire::LogT> next(LogSource& source, bool is_last);
  /// The reader has written all up to that message.
  void taken(std::uint64_t sequence);
  /// What is under way may be lost: next() begins again with it.
  void rewind();
  std::size_t under_way() const noexcept { return under_way_cost_; }
  /// The last message was sent and taken.
  bool is_done() const noexcept { return done_sent_ && under_way_.empty(); }

 private:
  struct Cursor {
    std::uint64_t offset = 0;
    std::uint64_t limit = UINT64_MAX;  ///< Without follow: where to end.
    bool is_queued = false;
    bool is_over = false;  ///< Nothing more is to be sent.
  };
  struct Sent {
    StreamId stream;
    std::uint64_t offset;
  };
  struct Message {
    std::uint64_t sequence = 0;
    std::size_t cost = 0;
    std::vector<Sent> from;
  };
  void queue(const StreamId& stream, Cursor& cursor);

  Options options_;
  std::map<StreamId, Cursor> cursors_;
  std::size_t open_ = 0;  ///< Cursors that are not over.
  std::deque<StreamId> ready_;
  std::deque<Message> under_way_;
  std::size_t under_way_cost_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t since_ = 1;
  bool done_sent_ = false;
};

}  // namespace meshbus::host
