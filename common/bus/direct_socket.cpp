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

/// Parts of a frame: the packed one, and bodies that ride detached.
constexpr std::size_t kMostDirectParts = 8;
/// Packets up to this are copied into memory of their own: the block is used again, and what waits
/// for the program has no more than four times its bytes.
constexpr std::size_t kSmall = 16 * 1024;
/// As much as may wait in a socket; the kernel allows less to most users, and says nothing.
constexpr int kSocketBuffer = 1024 * 1024;

/// Precedes the parts of a frame in its packet.
struct Prefix {
  std::uint32_t count = 0;
  std::array<std::uint32_t, kMostDirectParts> sizes{};
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Prefix) % 8 == 0, "what follows is aligned");

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

DirectSocket::Outcome DirectSocket::send(const Frame& frame) {
  Prefix prefix;
  std::array<iovec, 1 + kMostDirectParts> pieces{};
  pieces[0] = {&prefix, sizeof prefix};
  for (const auto& part : frame.parts) {
    prefix.sizes.at(prefix.count++) = static_cast<std::uint32_t>(part.size());
    pieces.at(prefix.count) = {const_cast<char*>(part.data()), part.size()};
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = 1 + prefix.count;
  const auto sent = ::sendmsg(descriptor(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return Outcome::done;
  const bool is_full =
      errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR;
  return is_full || errno == ENOMEM ? Outcome::not_now : Outcome::ended;
}

ssize_t DirectSocket::read_packet() {
  // It is mostly as large as the one before.
  if (block_.data == nullptr) block_ = Block(last_size_);
  const std::size_t first = std::min(block_.size, kMostBytes);
  if (first < kMostBytes && rest_ == nullptr)
    rest_ = std::make_unique_for_overwrite<char[]>(kMostBytes);
  std::array<iovec, 2> pieces = {iovec{block_.data, first}, {rest_.get(), kMostBytes - first}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const auto got = ::recvmsg(descriptor(), &message, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0) return got;
  last_size_ = std::min(static_cast<std::size_t>(got), kMostBytes);
  // A small one is copied by the caller.
  if (last_size_ <= kSmall || BlockPool::size_for(last_size_) == block_.size) return got;
  Block fitting(last_size_);
  std::memcpy(fitting.data, block_.data, std::min(first, last_size_));
  if (last_size_ > first) std::memcpy(fitting.data + first, rest_.get(), last_size_ - first);
  block_ = std::move(fitting);
  return got;
}

DirectSocket::Outcome DirectSocket::receive(std::vector<MessagePart>& parts) {
  const auto got = read_packet();
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return Outcome::not_now;
  Prefix prefix;
  const auto size = static_cast<std::size_t>(got);
  if (got > 0) received_ += size;
  if (got < static_cast<ssize_t>(sizeof prefix) || size > kMostBytes) return Outcome::ended;
  std::memcpy(&prefix, block_.data, sizeof prefix);
  if (prefix.count == 0 || prefix.count > kMostDirectParts) return Outcome::ended;
  std::size_t total = sizeof prefix;
  for (std::size_t i = 0; i < prefix.count; ++i) total += prefix.sizes.at(i);
  if (total != size) return Outcome::ended;
  parts.clear();
  char* at = block_.data + sizeof prefix;
  const bool is_small = size <= kSmall;
  MessagePart whole;
  if (!is_small) whole = BlockPool::part_of(std::exchange(block_.data, nullptr), size, block_.size);
  for (std::size_t i = 0; i < prefix.count; ++i) {
    const std::size_t length = prefix.sizes.at(i);
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
