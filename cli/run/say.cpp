#include "cli/run/say.h"

#include <poll.h>
#include <unistd.h>

#include "cli/support/terminal_text.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {

void say(const std::string& text) {
  say_lines("meshbus: " + text + "\n");
}

void say_lines(const std::string& lines) {
  // They may quote what others wrote.
  auto shown = shown_lines(lines);
  if (has_colours(STDERR_FILENO)) shown = own_lines_in_colour(shown);
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (!shown.empty() && ::poll(&ready, 1, 200) == 1) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, shown.data(), shown.size());
}

}  // namespace meshbus::cli
