#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

/// The log front that everything uses. It depends on nothing, so that the library inside procs can
/// have it too; what happens to a line is up to the sink that main() installs
/// (common/config/logging.h). Every function here may be called from any thread.
namespace meshbus::log {

enum class Level : std::uint8_t { trace, debug, info, warn, error };

/// "warn". Never null.
std::string_view to_string(Level level) noexcept;
/// The level of that name, or nothing.
std::optional<Level> find_level(std::string_view name) noexcept;

/// What becomes of a line. Called from whichever thread logs, also from several at once; it must
/// not throw, block or log. The text is one line: control characters, which may have come from a
/// stranger, are already escaped.
using Sink = std::function<void(Level level, std::string_view text)>;

/// Replaces the sink; lines below `least` no longer reach it. Without this call, warnings and
/// errors go to stderr as `meshbus warn: text`. An empty sink brings that default back.
void set_sink(Sink sink, Level least);

/// Only which lines are written: the sink stays.
void set_least(Level least);

/// Whether a line of that level would be written: one atomic load, for callers whose text costs
/// something to build.
bool is_enabled(Level level) noexcept;

void write(Level level, std::string_view text);
inline void trace(std::string_view text) {
  write(Level::trace, text);
}
inline void debug(std::string_view text) {
  write(Level::debug, text);
}
inline void info(std::string_view text) {
  write(Level::info, text);
}
inline void warn(std::string_view text) {
  write(Level::warn, text);
}
inline void error(std::string_view text) {
  write(Level::error, text);
}

/// Writes `text` and a line end to a descriptor in one piece if that is possible at once; never
/// blocks and never raises SIGPIPE, because a reader that stopped reading our log must not stop a
/// reactor. What is longer than a pipe takes at once (4096 bytes) is cut and marked. False: nothing
/// was written.
bool write_line(int fd, std::string_view text) noexcept;

/// How many lines a second one place may log. Pure: the time comes from the caller.
class LineLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LineLimit(unsigned lines_per_second) : lines_per_second_(lines_per_second) {}
  /// Nothing: leave this line out. Else write it, and say that so many before it were left out.
  std::optional<std::uint64_t> on_line(Time now);

 private:
  unsigned lines_per_second_;
  unsigned written_ = 0;
  std::uint64_t left_out_ = 0;
  std::optional<Time> second_;  // when the running second began
};

/// A log front for one place in the code whose lines strangers can cause: at most so many lines a
/// second; the first line after a gap says how many were left out. `static log::Limited
/// limited(10); limited.warn("peer " + name + " sent a malformed frame");`
class Limited {
 public:
  explicit Limited(unsigned lines_per_second) : limit_(lines_per_second) {}
  void write(Level level, std::string_view text);
  void info(std::string_view text) { write(Level::info, text); }
  void warn(std::string_view text) { write(Level::warn, text); }
  void error(std::string_view text) { write(Level::error, text); }

 private:
  std::mutex mutex_;
  LineLimit limit_;
};

}  // namespace meshbus::log
