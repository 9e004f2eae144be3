#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus {

/// Lines that outlive the process that wrote them, in at most two files: PATH.jsonl, which is
/// appended to, and PATH.BEGIN.jsonl, which was set aside when the first had half of the size
/// allowed. A line has an offset that stays the same: BEGIN is that of a file's first byte.
///
/// What is written is one write(2) with O_APPEND, so others may append whole lines too (the warden
/// does) and a line is there or not, however its writer dies. A machine that loses power may lose
/// the last lines unless each is synced to the disk; the next writer ends a line that is torn then,
/// and readers skip it because it is no record.
///
/// Lives on one thread.
class EventLog {
 public:
  /// Keeps nothing.
  EventLog() = default;
  /// Takes what is there. `size`: bytes in all. `is_synced`: each append() waits until the disk has
  /// what it wrote. Errors: configuration_error naming the file.
  static Result<EventLog> open(std::string path, std::uint64_t size, bool is_synced = false);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  /// Appends whole lines, newlines included. What cannot be written is lost, which the log of this
  /// process says.
  void append(std::string_view lines);
  /// Calls of append() that could not write everything, because the disk is full for example.
  std::uint64_t lost() const noexcept { return lost_; }

  /// The offset behind the last line.
  std::uint64_t end() const;

  /// Calls `each` with complete lines, without their newlines, from `offset` on (the oldest that is
  /// kept, if that is later), until it says false or `most` bytes were looked at.
  struct Stop {
    std::uint64_t next = 0;  ///< Where to go on.
    bool at_end = true;      ///< There was nothing more.
  };
  Stop read(std::uint64_t offset, std::uint64_t most,
            const std::function<bool(std::string_view)>& each) const;

  /// A longer line is not written by meshbus.
  static constexpr std::size_t kLongestLine = 256 * 1024;

 private:
  struct Part {
    std::string path;
    std::uint64_t begin = 0;
  };
  std::string current_path() const { return path_ + ".jsonl"; }
  std::string aside_path(std::uint64_t begin) const;
  /// Finds the file that was set aside; older ones of that name are removed.
  Part find_aside() const;
  Result<void> open_current();
  void set_aside();

  std::string path_;
  std::uint64_t size_ = 0;
  std::uint64_t begin_ = 0;  // of the current file
  std::uint64_t lost_ = 0;
  bool is_synced_ = false;
  UniqueFd fd_;
};

}  // namespace meshbus
