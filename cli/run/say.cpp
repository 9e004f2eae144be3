#include "cli/run/say.h"

#include <poll.h>
#include <unistd.h>

namespace meshbus::cli {

void say(const std::string& text) {
  say_lines("meshbus: " + text + "\n");
}

void say_lines(const std::string& lines) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (!lines.empty() && ::poll(&ready, 1, 200) == 1) [[maybe_unused]]
    const auto n = ::write(STDERR_FILENO, lines.data(), lines.size());
}

}  // namespace meshbus::cli
