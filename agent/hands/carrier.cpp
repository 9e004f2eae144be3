#include "agent/hands/carrier.h"

#include <unistd.h>

#include <array>
#include <cerrno>

namespace meshbus::hands {

void Carrier::read() {
  std::array<char, kMost> piece{};
  const auto n = ::read(from_, piece.data(), piece.size());
  if (n > 0) {
    pending_.append(piece.data(), static_cast<std::size_t>(n));
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    // A terminal that nobody has open any more fails with EIO.
    error_ = n == 0 ? 0 : errno;
    at_end_ = true;
  }
}

void Carrier::stop() {
  pending_.clear();
  at_end_ = true;
}

bool Carrier::write() {
  while (!pending_.empty()) {
    const auto n = ::write(to_, pending_.data(), pending_.size());
    if (n > 0) {
      pending_.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      pending_.clear();
      return false;
    }
  }
  return true;
}

}  // namespace meshbus::hands
