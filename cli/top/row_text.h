#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/top/screen.h"
#include "cli/top/site_tree.h"

namespace meshbus::cli {

/// What the columns of `meshbus top` show.
enum class Field : std::uint8_t {
  state,
  pid,
  cpu,
  time,
  memory,
  threads,
  attempts,
  queue,
  waits,
  age,
  last_line
};

/// "- unix:/run/m/broker", "    3 host=0/2,gpu=1/4": with the place in the tree.
std::string name_of(const TreeRow& row);
/// The text of one column; empty: there is nothing to say.
std::string text_of(const TreeRow& row, Field field, std::chrono::system_clock::time_point now);
/// The ink of its state.
Ink ink_of(const TreeRow& row);
/// One line with what the columns have no room for.
std::string detail_of(const TreeRow& row, std::chrono::system_clock::time_point now);
/// "12s", "3m05s", "2h07m", "12d4h"
std::string age_text(std::chrono::system_clock::duration age);
/// "0", "85", "1.2k", "3.4M"
std::string rate_text(double rate);

}  // namespace meshbus::cli
