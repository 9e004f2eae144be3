#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshbus::cli {

enum class Colour : std::uint8_t { none, red, green, yellow, blue, magenta, cyan, grey };

/// Whether to write colours to that descriptor: it is a terminal, TERM is not "dumb", and NO_COLOR
/// is not set.
bool has_colours(int fd);

/// The text in that colour; `none`: as it is.
std::string in_colour(Colour colour, std::string_view text);

/// The one that tells a rank from its neighbours.
Colour colour_of_rank(std::uint64_t rank);

/// Green for what runs, red for what failed, of the words that ps and status have.
Colour colour_of_state(std::string_view word);

/// Our own lines, which begin with "meshbus:", in colours: these words grey, a first failure red.
std::string own_lines_in_colour(std::string_view lines);

/// What a terminal may show of a line that a rank wrote. Colours stay, and end with the line; other
/// control characters are escaped, since they could do anything to the terminal. Of a line that
/// overwrites itself (a progress bar, with carriage returns) the last state.
std::string for_terminal(std::string_view line);

}  // namespace meshbus::cli
