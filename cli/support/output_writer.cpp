#include "cli/support/output_writer.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "cli/support/terminal_text.h"

namespace meshbus::cli {
namespace {

/// How long a reader may let us wait before we say that we are blocked, in milliseconds.
constexpr int kPollLimit = 100;

}  // namespace

OutputWriter::OutputWriter(std::vector<std::string> prefixes, std::function<void(bool)> on_blocked)
    : prefixes_(std::move(prefixes)), on_blocked_(std::move(on_blocked)) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status{};
    const auto at = static_cast<std::size_t>(fd);
    is_file_[at] = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    is_terminal_[at] = ::isatty(fd) == 1;
    has_colours_[at] = has_colours(fd);
  }
}

bool OutputWriter::write(std::uint64_t rank, Stream stream, std::string_view bytes) {
  if (error_ != 0) return false;
  const int fd = stream == Stream::err ? STDERR_FILENO : STDOUT_FILENO;
  while (later_prefix_ && rank >= prefixes_.size())
    prefixes_.push_back(later_prefix_(prefixes_.size()));
  if (rank >= prefixes_.size()) return write_all(fd, bytes);
  const auto at = static_cast<std::size_t>(fd);
  const std::string prefix =
      in_colour(has_colours_[at] ? colour_of_rank(rank) : Colour::none, prefixes_[rank]);
  std::string prefixed;
  prefixed.reserve(bytes.size() + 64);
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    prefixed += prefix;
    const auto line = bytes.substr(0, end);
    if (is_terminal_[at]) {
      prefixed += for_terminal(line);
    } else {
      prefixed += line;
    }
    prefixed += '\n';
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return write_all(fd, prefixed);
}

bool OutputWriter::write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    wait_for_reader(fd);
    // A pipe that is ready takes so much without blocking.
    const auto n = ::write(fd, bytes.data(),
                           is_file_[static_cast<std::size_t>(fd)]
                               ? bytes.size()
                               : std::min<std::size_t>(bytes.size(), PIPE_BUF));
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR && errno != EAGAIN) {
      error_ = errno;
      return false;
    }
  }
  return true;
}

void OutputWriter::wait_for_reader(int fd) {
  pollfd ready{fd, POLLOUT, 0};
  if (is_file_[static_cast<std::size_t>(fd)] || ::poll(&ready, 1, kPollLimit) != 0) return;
  if (on_blocked_) on_blocked_(true);
  while (::poll(&ready, 1, -1) < 0 && errno == EINTR) {
  }
  if (on_blocked_) on_blocked_(false);
}

namespace {

std::string prefix_of(std::string_view name, const Extent& extent, std::uint64_t rank) {
  std::string prefix = "[" + std::string(name) + "/" + std::to_string(rank);
  const auto coordinates = extent.coordinates_of(rank);
  for (std::size_t axis = 0; coordinates && axis < coordinates->size(); ++axis)
    prefix += (axis == 0 ? " " : ",") + extent.labels()[axis] + "=" +
              std::to_string((*coordinates)[axis]);
  return prefix + "] ";
}

}  // namespace

std::vector<std::string> make_prefixes(std::string_view name, const Extent& extent) {
  std::vector<std::string> prefixes;
  prefixes.reserve(extent.num_ranks());
  for (std::uint64_t rank = 0; rank < extent.num_ranks(); ++rank)
    prefixes.push_back(prefix_of(name, extent, rank));
  return prefixes;
}

std::string later_prefix(std::string_view name, const Extent& extent, std::uint64_t rank) {
  auto sizes = extent.sizes();
  if (sizes.empty() || extent.num_ranks() == 0) return prefix_of(name, extent, rank);
  const auto per_index = extent.num_ranks() / sizes.front();
  sizes.front() = std::max(sizes.front(), rank / per_index + 1);
  const auto larger = Extent::make(extent.labels(), std::move(sizes));
  return prefix_of(name, larger ? *larger : extent, rank);
}

}  // namespace meshbus::cli
