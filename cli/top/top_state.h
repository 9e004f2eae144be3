#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/top/site_tree.h"
#include "meshbus/site.h"

namespace meshbus::cli {

/// What a command that was started from here prints.
struct Pane {
  std::string title = {};
  std::vector<std::string> lines = {};
  std::size_t first = 0;    ///< The first line that is shown.
  std::size_t left = 0;     ///< The first column that is shown.
  bool is_at_end = true;    ///< Shows the last lines, also of those to come.
  bool is_running = false;  ///< The command has not ended.
};

/// What `meshbus top` is to do next.
struct TopOrder {
  enum class Kind : std::uint8_t {
    none,
    quit,
    show,      ///< Run `words` and show what it prints in the pane.
    act,       ///< Run `words`; the last line that it prints is the message.
    end_pane,  ///< End the command of the pane.
  };
  Kind kind = Kind::none;
  /// Words behind "meshbus".
  std::vector<std::string> words = {};
};

/// All that `meshbus top` shows, but for the size of the window.
struct TopState {
  enum class Mode : std::uint8_t {
    list,
    help,
    filter,   ///< Typing the filter into `input`.
    signal,   ///< Typing the name of a signal into `input`.
    confirm,  ///< `question` is asked; y gives `pending`.
    pane,
  };

  SiteView view = {};
  TreeOptions tree = {};
  Mode mode = Mode::list;
  std::string selected = {};  ///< TreeRow::key.
  std::size_t first = 0;      ///< The first row that is shown.
  std::string input = {};
  std::string question = {};
  TopOrder pending = {};
  std::string message = {};
  Pane pane = {};
  /// How the user named the hosts: words of the command line for the commands that keys start.
  std::vector<std::string> host_words = {};
};

}  // namespace meshbus::cli
