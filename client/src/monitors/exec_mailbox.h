#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus {

/// Bytes of an exec.
struct ExecPiece {
  std::uint64_t sequence = 0;
  bool is_err = false;  ///< stderr, else stdout.
  std::string bytes;
  /// Nothing follows on this stream.
  bool is_end = false;
};

/// How an exec has ended.
struct ExecEnd {
  int code = 0;
  int signal = 0;  ///< 0: it has exited with `code`.
  /// Why it was ended; empty: it ended by itself.
  std::string reason = {};
};

/// What an ExecStream has for its consumer, a thread that polls. Any thread.
class ExecMailbox {
 public:
  ExecMailbox();
  /// False: there was no descriptor for it. Nothing else may be called then.
  bool is_open() const noexcept { return static_cast<bool>(event_); }

  // The consumer.

  /// Readable when there may be something new.
  int fd() const noexcept { return event_.get(); }
  /// Call it before the others when fd() is readable.
  void clear() const;
  bool is_started() const;
  /// The next bytes. Nothing: there are none now.
  std::optional<ExecPiece> take();
  /// Whether it may write: it has started, and all input is taken.
  bool may_write() const;
  bool is_input_closed() const;
  /// How it has ended, when all pieces were taken.
  std::optional<Result<ExecEnd>> end() const;

  // The stream.

  void set_started();
  void push(ExecPiece piece);
  /// What was not taken yet, and what each piece costs besides its bytes.
  std::size_t held() const;
  void set_writing(bool is_writing);
  void set_input_closed();
  void set_end(Result<ExecEnd> end);

 private:
  void wake() const;

  UniqueFd event_;
  mutable std::mutex mutex_;
  std::deque<ExecPiece> pieces_;  // guarded by mutex_, like what follows
  std::size_t held_ = 0;
  bool is_started_ = false;
  bool is_writing_ = false;
  bool is_input_closed_ = false;
  std::optional<Result<ExecEnd>> end_;
};

}  // namespace meshbus
