#include "common/zmtp/zmtp_sender.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/zmtp/zmtp_flags.h"

namespace meshbus {
namespace {

/// Frames in one system call.
constexpr std::size_t kMostFrames = 64;

}  // namespace

void ZmtpSender::add(MessagePart body, std::uint8_t flags) {
  Piece& piece = frames_.emplace_back();
  const std::size_t size = body.size();
  if (size < 256) {
    piece.header = {flags, static_cast<std::uint8_t>(size)};
    piece.header_size = 2;
  } else {
    piece.header[0] = flags | zmtp::kLong;
    for (std::size_t at = 0; at < 8; ++at)
      piece.header[8 - at] =
          static_cast<std::uint8_t>(static_cast<std::uint64_t>(size) >> (8 * at));
    piece.header_size = 9;
  }
  piece.body = std::move(body);
}

ZmtpSender::Written ZmtpSender::write(int descriptor) {
  while (next_ < frames_.size()) {
    std::array<iovec, 2 * kMostFrames> buffers;
    std::size_t count = 0;
    for (std::size_t i = next_; i < frames_.size() && count + 2 <= buffers.size(); ++i) {
      Piece& piece = frames_[i];
      const std::size_t skip = i == next_ ? left_ : 0;
      if (skip < piece.header_size)
        buffers[count++] = {piece.header.data() + skip, piece.header_size - skip};
      const std::size_t skip_body = skip - std::min(skip, piece.header_size);
      if (skip_body < piece.body.size())
        buffers[count++] = {piece.body.data() + skip_body, piece.body.size() - skip_body};
    }
    msghdr message{};
    message.msg_iov = buffers.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Written::full : Written::broken;
    left_ += static_cast<std::size_t>(sent);
    while (next_ < frames_.size()) {
      const std::size_t size = frames_[next_].header_size + frames_[next_].body.size();
      if (left_ < size) break;
      left_ -= size;
      ++next_;
    }
  }
  frames_.clear();
  next_ = left_ = 0;
  return Written::all;
}

}  // namespace meshbus
