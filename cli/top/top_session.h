#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/top/side_command.h"
#include "cli/top/terminal.h"
#include "cli/top/top_state.h"
#include "meshbus/site.h"

namespace meshbus::cli {

/// `meshbus top` on a terminal: draws what the site tells, at most so often as it is asked, and
/// does what keys order.
class TopSession {
 public:
  TopSession(Terminal& terminal, const Site& site, std::vector<std::string> host_words,
             std::chrono::milliseconds period);

  /// Until a key or a signal ends it. Returns the exit code.
  int run();

 private:
  bool take_changes();
  void take_output();
  void draw();
  void carry_out(TopOrder order);

  Terminal& terminal_;
  const Site& site_;
  std::chrono::milliseconds period_;
  TopState state_;
  /// The command of the pane, or one that acts.
  std::optional<SideCommand> command_;
  bool is_acting_ = false;
  std::string last_words_;
  bool is_over_ = false;
};

}  // namespace meshbus::cli
