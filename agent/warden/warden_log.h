#pragma once

#include <string>

#include "common/base/unique_fd.h"

namespace meshbus::warden {

/// What a warden tells people and its launcher: on stderr, in the event log of its host, and by the
/// one line that says whether the host is ready.
class WardenLog {
 public:
  /// `ready_fd`: where the ready line goes; empty: nowhere.
  explicit WardenLog(UniqueFd ready_fd) : ready_fd_(std::move(ready_fd)) {}

  /// From now on note() writes into the event log `path`.jsonl.
  void set_event_log(std::string path) { event_log_ = std::move(path); }

  /// One line on stderr.
  void say(const std::string& line) const;
  /// The same, and an event of a role in the event log.
  void note(const std::string& line) const;
  /// Writes the ready line, or the error line, and closes the descriptor: only the first one
  /// counts.
  void report(const std::string& line);
  int ready_fd() const noexcept { return ready_fd_.get(); }

 private:
  UniqueFd ready_fd_;
  std::string event_log_;  // without the endings of its files; empty: there is none yet
};

}  // namespace meshbus::warden
