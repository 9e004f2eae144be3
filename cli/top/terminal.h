#pragma once

#include <memory>
#include <optional>

#include "cli/top/screen.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// The terminal of this process, taken over by curses while the object lives. One at a time.
class Terminal {
 public:
  /// Errors: refused (no terminal, or one that cannot place text), in words for people.
  static Result<std::unique_ptr<Terminal>> open();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::size_t columns() const;
  std::size_t lines() const;
  /// Only cells that have changed are sent.
  void draw(const Screen& screen);
  /// The next key that is there, as on_key() takes it; nothing: there is none. A new size of the
  /// window comes as key 0.
  std::optional<int> take_key();

 private:
  explicit Terminal(bool has_colors);
  bool has_colors_;
  bool is_utf8_;
};

}  // namespace meshbus::cli
