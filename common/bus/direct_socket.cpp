#include "common/bus/direct_socket.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "common/base/block_pool.h"
#include "common/base/os_error.h"

namespace meshbus {
namespace {

/// Frames up to this are copied into memory of their own: the block is used again, and what waits
/// for the program has no more than four times its bytes.
constexpr std::size_t kSmall = 16 * 1024;
/// As much as may wait in a socket; the kernel allows less to most users, and says nothing.
constexpr int kSocketBuffer = 1024 * 1024;

/// A part of a larger one, which lives as long.
MessagePart part_within(const MessagePart& whole, char* at, std::size_t size) {
  auto owner = std::make_unique<MessagePart>();
  owner->share(whole);
  MessagePart part(
      at, size, [](void*, void* hint) { delete static_cast<MessagePart*>(hint); }, owner.get());
  owner.release();  // NOLINT(bugprone-unused-return-value): the part has it
  return part;
}

}  // namespace

DirectSocket::Block::Block(std::size_t bytes)
    : data(BlockPool::take(BlockPool::size_for(bytes))), size(BlockPool::size_for(bytes)) {}

DirectSocket::Block::~Block() {
  if (data != nullptr) BlockPool::give_back(data, size);
}

Result<DirectSocket> DirectSocket::adopt(UniqueFd fd) {
  int domain = 0, type = 0;
  socklen_t size = sizeof domain;
  const bool is_one = ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                      ::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                      domain == AF_UNIX && type == SOCK_SEQPACKET;
  if (!is_one) return fail(ErrorCode::io_error, "the descriptor is no socket for a direct path");
  return DirectSocket(std::move(fd));
}

Result<std::pair<DirectSocket, UniqueFd>> DirectSocket::make_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(ErrorCode::io_error, os_error("socketpair for a direct path"));
  UniqueFd own(ends[0]), other(ends[1]);
  for (const int end : ends)
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
  return std::pair(DirectSocket(std::move(own)), std::move(other));
}

std::size_t DirectSocket::Prefix::total() const noexcept {
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  return bytes;
}

DirectSocket::Outcome DirectSocket::send(const Frame& frame, std::size_t& sent) {
  Prefix prefix;
  for (const auto& part : frame.parts)
    prefix.sizes.at(prefix.count++) = static_cast<std::uint32_t>(part.size());
  const std::size_t total = prefix.total();
  while (sent < total) {
    prefix.from = static_cast<std::uint32_t>(sent);
    const std::size_t most = std::min(kPacket, total - sent);
    std::array<iovec, 1 + kMostParts> pieces{};
    pieces[0] = {&prefix, sizeof prefix};
    std::size_t count = 1, skip = sent, taken = 0;
    for (const auto& part : frame.parts) {
      const std::size_t left = part.size() - std::min(skip, part.size());
      const std::size_t length = std::min(left, most - taken);
      if (length > 0)
        pieces.at(count++) = {const_cast<char*>(part.data()) + (part.size() - left), length};
      skip -= std::min(skip, part.size());
      taken += length;
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    if (::sendmsg(descriptor(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      const bool is_full =
          errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR;
      return is_full || errno == ENOMEM ? Outcome::not_now : Outcome::ended;
    }
    sent += taken;
  }
  return Outcome::done;
}

bool DirectSocket::is_next(const Prefix& prefix, std::size_t size) const {
  const std::size_t total = prefix.total();
  if (prefix.count == 0 || prefix.count > kMostParts || total == 0 || total > kMostBytes)
    return false;
  for (std::size_t i = prefix.count; i < kMostParts; ++i) {
    if (prefix.sizes.at(i) != 0) return false;
  }
  // What came of a frame that was given up is forgotten.
  if (prefix.from != 0) {
    Prefix expected = frame_;
    expected.from = static_cast<std::uint32_t>(filled_);
    if (filled_ == 0 || prefix != expected) return false;
  }
  return size == std::min(kPacket, total - prefix.from);
}

DirectSocket::Outcome DirectSocket::read_packet() {
  // A frame is mostly as large as the one before.
  if (block_.data == nullptr) block_ = Block(frame_.total());
  char* const at = block_.data + filled_;
  const std::size_t room = std::min(block_.size - filled_, kPacket);
  if (room < kPacket && rest_ == nullptr) rest_ = std::make_unique_for_overwrite<char[]>(kPacket);
  Prefix prefix;
  std::array<iovec, 3> pieces = {
      iovec{&prefix, sizeof prefix}, {at, room}, {rest_.get(), kPacket - room}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const auto got = ::recvmsg(descriptor(), &message, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return Outcome::not_now;
  if (got > 0) received_ += static_cast<std::size_t>(got);
  if (got < static_cast<ssize_t>(sizeof prefix)) return Outcome::ended;
  const std::size_t size = static_cast<std::size_t>(got) - sizeof prefix;
  if (!is_next(prefix, size)) return Outcome::ended;
  const std::size_t total = prefix.total();
  const bool fits = total <= kSmall || BlockPool::size_for(total) == block_.size;
  if (!fits || prefix.from != filled_) {
    Block fitting(total);
    const std::size_t first = std::min(size, room);
    std::memcpy(fitting.data, block_.data, prefix.from);
    std::memcpy(fitting.data + prefix.from, at, first);
    if (size > first) std::memcpy(fitting.data + prefix.from + first, rest_.get(), size - first);
    block_ = std::move(fitting);
  }
  filled_ = prefix.from + size;
  frame_ = prefix;
  return Outcome::done;
}

DirectSocket::Outcome DirectSocket::receive(std::vector<MessagePart>& parts) {
  do {
    if (const auto outcome = read_packet(); outcome != Outcome::done) return outcome;
  } while (filled_ < frame_.total());
  const std::size_t size = std::exchange(filled_, 0);
  char* at = block_.data;
  const bool is_small = size <= kSmall;
  MessagePart whole;
  if (!is_small) whole = BlockPool::part_of(std::exchange(block_.data, nullptr), size, block_.size);
  parts.clear();
  for (std::size_t i = 0; i < frame_.count; ++i) {
    const std::size_t length = frame_.sizes.at(i);
    parts.push_back(is_small ? MessagePart(at, length) : part_within(whole, at, length));
    at += length;
  }
  return Outcome::done;
}

std::uint64_t DirectSocket::waiting() const {
  int bytes = 0;
  return ::ioctl(descriptor(), FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

void DirectSocket::end_reading() {
  ::shutdown(descriptor(), SHUT_RD);
}

}  // namespace meshbus
