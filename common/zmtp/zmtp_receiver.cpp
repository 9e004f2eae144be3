#include "common/zmtp/zmtp_receiver.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/block_pool.h"
#include "common/zmtp/zmtp_flags.h"

namespace meshbus {
namespace {

/// A frame with more than so much to come is read where it belongs.
constexpr std::size_t kReadInPlace = 8 * 1024;
constexpr std::size_t kShortHeader = 2;
constexpr std::size_t kLongHeader = 9;

}  // namespace

ssize_t ZmtpReceiver::read(int descriptor, std::size_t most) {
  taken_ = filled_ = 0;
  const std::size_t missing = part_ ? part_->body.size() - part_->filled : 0;
  const std::size_t in_place = missing > kReadInPlace ? std::min(missing, most) : 0;
  std::array<iovec, 2> places = {
      iovec{in_place == 0 ? nullptr : part_->body.data() + part_->filled, in_place},
      iovec{buffer_->data(), buffer_->size()}};
  msghdr message{};
  message.msg_iov = in_place > 0 ? places.data() : &places[1];
  message.msg_iovlen = in_place == missing && in_place > 0 ? 2 : 1;
  ssize_t got = 0;
  do {
    got = ::recvmsg(descriptor, &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return got;
  const auto count = static_cast<std::size_t>(got);
  if (in_place > 0) part_->filled += std::min(count, in_place);
  filled_ = count - std::min(count, in_place);
  return got;
}

ssize_t ZmtpReceiver::drop(int descriptor) {
  ssize_t got = 0;
  do {
    got = ::recv(descriptor, buffer_->data(), buffer_->size(), MSG_DONTWAIT);
  } while (got > 0 || (got < 0 && errno == EINTR));
  return got;
}

void ZmtpReceiver::clear() {
  taken_ = filled_ = 0;
  partial_.clear();
  part_.reset();
}

bool ZmtpReceiver::collect(std::size_t size) {
  const std::size_t count = std::min(size - std::min(size, partial_.size()), unread());
  partial_.append(buffer_->data() + taken_, count);
  taken_ += count;
  return partial_.size() >= size;
}

std::optional<std::string> ZmtpReceiver::take(std::size_t size) {
  return collect(size) ? std::optional(std::exchange(partial_, {})) : std::nullopt;
}

std::optional<ZmtpReceiver::Header> ZmtpReceiver::take_header() {
  if (partial_.empty() && unread() == 0) return std::nullopt;
  // Most headers are there whole: they are read where they lie.
  const bool is_apart = !partial_.empty() || unread() < kLongHeader;
  if (is_apart && !collect(kShortHeader)) return std::nullopt;
  const auto* bytes =
      reinterpret_cast<const unsigned char*>(is_apart ? partial_.data() : buffer_->data() + taken_);
  const auto flags = bytes[0];
  if ((flags & ~(zmtp::kMore | zmtp::kLong | zmtp::kCommand)) != 0)
    return Header{.is_valid = false};
  const std::size_t length = (flags & zmtp::kLong) != 0 ? kLongHeader : kShortHeader;
  if (is_apart) {
    if (!collect(length)) return std::nullopt;
    bytes = reinterpret_cast<const unsigned char*>(partial_.data());
  }
  Header header{.size = length == kShortHeader ? bytes[1] : std::uint64_t{0},
                .has_more = (flags & zmtp::kMore) != 0,
                .is_command = (flags & zmtp::kCommand) != 0};
  for (std::size_t i = 1; length == kLongHeader && i < kLongHeader; ++i)
    header.size = header.size << 8 | bytes[i];
  if (is_apart) {
    partial_.clear();
  } else {
    taken_ += length;
  }
  return header;
}

void ZmtpReceiver::begin(const Header& header) {
  part_.emplace(Part{BlockPool::part(static_cast<std::size_t>(header.size)), 0, header.has_more,
                     header.is_command});
}

std::optional<ZmtpReceiver::Part> ZmtpReceiver::take_part() {
  const std::size_t count = std::min(unread(), part_->body.size() - part_->filled);
  if (count > 0) std::memcpy(part_->body.data() + part_->filled, buffer_->data() + taken_, count);
  taken_ += count;
  part_->filled += count;
  if (part_->filled < part_->body.size()) return std::nullopt;
  return std::exchange(part_, std::nullopt);
}

}  // namespace meshbus
