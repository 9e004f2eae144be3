#include "client/cli/output_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "meshbus/point.h"

namespace meshbus::cli {

bool OutputWriter::write(std::uint64_t rank, Stream stream, std::string_view bytes) {
  if (is_broken_) return false;
  const int fd = stream == Stream::err ? STDERR_FILENO : STDOUT_FILENO;
  if (rank >= prefixes_.size()) return write_all(fd, bytes);
  std::string prefixed;
  prefixed.reserve(bytes.size() + 64);
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    prefixed += prefixes_[rank];
    prefixed += bytes.substr(0, end);
    prefixed += '\n';
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  }
  return write_all(fd, prefixed);
}

bool OutputWriter::write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      // Our stdout may be non-blocking because somebody who shares it made it so.
      pollfd ready{fd, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      is_broken_ = true;
      return false;
    }
  }
  return true;
}

std::vector<std::string> make_prefixes(std::string_view name, const ProcMeshRef& mesh) {
  const Extent extent = mesh.region().extent();
  std::vector<std::string> prefixes;
  prefixes.reserve(mesh.num_ranks());
  for (std::uint64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::string prefix = "[" + std::string(name);
    const auto coordinates = extent.coordinates_of(rank);
    for (std::size_t axis = 0; coordinates && axis < coordinates->size(); ++axis)
      prefix += (axis == 0 ? "/" : ",") + extent.labels()[axis] + "=" + std::to_string((*coordinates)[axis]);
    prefixes.push_back(prefix + "] ");
  }
  return prefixes;
}

}  // namespace meshbus::cli
