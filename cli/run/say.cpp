#include "cli/run/say.h"

#include <poll.h>
#include <unistd.h>

#include "cli/support/terminal_text.h"

namespace meshbus::cli {

void say(const std::string& text) {
  say_lines("meshbus: " + text + "\n");
}

void say_lines(const std::string& lines) {
  const auto shown = has_colours(STDERR_FILENO) ? own_lines_in_colour(lines) : lines;
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (!shown.empty() && ::poll(&ready, 1, 200) == 1) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, shown.data(), shown.size());
}

}  // namespace meshbus::cli
