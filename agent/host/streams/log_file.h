#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::host {

/// One output stream of a proc in files: PATH is being written; when it is full it becomes
/// PATH.OFFSET, the offset of its first byte in the stream (15 digits), and the oldest of these
/// goes. What append() was given is with the kernel when it returns: it outlives this process.
///
/// A file that cannot be written ends there: what comes meanwhile is in no file, which is logged,
/// and a new file is begun later. Lives on the reactor's thread; writes to a local disk's cache do
/// not wait.
class LogFile {
 public:
  struct Limits {
    std::uint64_t size = 16 * 1024 * 1024;
    std::size_t files = 5;
  };
  static constexpr std::chrono::seconds kRetryAfter{5};

  /// `on_begun`: PATH now begins at that offset of the stream. It is called before anything is in
  /// the file: an agent that notes the offset can resume() whenever this process was killed.
  LogFile(std::string path, Limits limits, std::function<void(std::uint64_t)> on_begun = nullptr)
      : path_(std::move(path)), limits_(limits), on_begun_(std::move(on_begun)) {}
  ~LogFile() { close(); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Offsets of what a file has.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  /// The files that were set aside in a directory, by the names of the streams' files.
  using PartsByName = std::map<std::string, std::deque<Part>>;
  static PartsByName find_parts(const std::string& directory);
  /// Goes on with the files that another agent has left; `begin`: the last argument of on_begun.
  /// Not for a new stream.
  void resume(std::uint64_t begin, std::deque<Part> aside);
  /// The bytes of the stream at that offset, which grows. Files end at line ends where they can.
  void append(std::uint64_t offset, Bytes bytes);
  /// Nothing more will come.
  void close();

  /// Offsets of the first byte that is kept, and behind the last one. Between them there may be
  /// gaps.
  std::uint64_t begin() const noexcept { return parts_.empty() ? 0 : parts_.front().begin; }
  std::uint64_t end() const noexcept { return parts_.empty() ? 0 : parts_.back().end; }
  struct Piece {
    std::uint64_t offset = 0;
    std::string bytes;
  };
  /// At most so many bytes at that offset, or at the first one after it that is kept; none when
  /// there are none.
  Piece read(std::uint64_t offset, std::size_t most) const;
  static constexpr std::size_t kLookBack = 1024 * 1024;
  /// Where the last `lines` lines in front of `end` begin, looking back so many bytes at most.
  std::uint64_t offset_of_last(std::uint64_t lines, std::uint64_t end,
                               std::size_t most = kLookBack) const;

 private:
  std::string path_of(const Part& part) const;
  bool write(std::uint64_t offset, Bytes bytes);
  bool open(std::uint64_t offset);
  void set_aside();
  void give_up(const char* step);

  std::string path_;
  Limits limits_;
  std::function<void(std::uint64_t)> on_begun_;
  /// In order; the last one is the file that is written, when is_open_.
  std::deque<Part> parts_;
  bool is_begun_ = false;
  UniqueFd fd_;
  std::uint64_t lost_ = 0;
  std::chrono::steady_clock::time_point retry_at_{};
};

/// Makes DIRECTORY/MESH, for LogFiles. Errors: configuration_error saying which directory, why, and
/// what to do.
Result<std::string> make_log_directory(const std::string& directory, const std::string& mesh);

}  // namespace meshbus::host
