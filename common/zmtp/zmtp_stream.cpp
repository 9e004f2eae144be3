#include "common/zmtp/zmtp_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "common/base/block_pool.h"

namespace meshbus {
namespace {

using namespace std::string_view_literals;

/// A part with more than so much to come is read where it belongs.
constexpr std::size_t kReadInPlace = 8 * 1024;
/// Pieces in one system call.
constexpr std::size_t kMostPieces = 64;
/// All parts of a message: a frame that was almost full (kFrameLimit, kPackLimit) when a message of
/// kBodyLimit came, and more.
constexpr std::size_t kMessageLimit = 2 * 1024 * 1024;

// ZMTP 3.0, RFC 23.
constexpr std::size_t kGreetingSize = 64;
constexpr std::size_t kMechanismAt = 12;
constexpr std::size_t kMechanismSize = 20;
constexpr std::uint8_t kMore = 1;
constexpr std::uint8_t kLong = 2;
constexpr std::uint8_t kCommand = 4;
constexpr std::string_view kReadyName = "\5READY"sv;
// ZMTP 3.1, RFC 37, which whoever has heartbeats speaks: a time to live of 2 bytes, and what is to
// be said back.
constexpr std::string_view kPingName = "\4PING"sv;
constexpr std::string_view kPongName = "\4PONG"sv;
constexpr std::size_t kTimeToLive = 2;
constexpr std::size_t kMostContext = 16;

/// Whether the properties of a READY are well-formed, and name no type of socket that a DEALER or
/// ROUTER cannot talk to.
bool is_fitting(std::string_view properties) {
  while (!properties.empty()) {
    const auto name_size = static_cast<unsigned char>(properties[0]);
    properties.remove_prefix(1);
    if (properties.size() < name_size + std::size_t{4}) return false;
    const std::string_view name = properties.substr(0, name_size);
    std::size_t size = 0;
    for (const char c : properties.substr(name_size, 4))
      size = size << 8 | static_cast<unsigned char>(c);
    properties.remove_prefix(name_size + std::size_t{4});
    if (properties.size() < size) return false;
    const std::string_view value = properties.substr(0, size);
    properties.remove_prefix(size);
    if (name == "Socket-Type") return value == "DEALER" || value == "ROUTER" || value == "REQ";
  }
  return true;
}

}  // namespace

ZmtpStream::ZmtpStream(UniqueFd fd, std::string_view socket_type, Buffer& buffer)
    : fd_(std::move(fd)), socket_type_(socket_type), buffer_(buffer) {}

bool ZmtpStream::greet() {
  std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"sv);
  text.resize(kGreetingSize, '\0');
  std::string ready = std::string(kReadyName) + std::string("\13Socket-Type\0\0\0"sv);
  ready += static_cast<char>(socket_type_.size());
  ready += socket_type_;
  text += static_cast<char>(kCommand);
  text += static_cast<char>(ready.size());
  text += ready;
  return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

void ZmtpStream::end(std::string why) {
  state_ = State::ended;
  why_ended_ = std::move(why);
}

void ZmtpStream::refuse(std::string why) {
  is_refused_ = true;
  taken_ = filled_ = 0;
  partial_.clear();
  incoming_.reset();
  parts_.clear();
  end(std::move(why));
}

std::size_t ZmtpStream::fill(std::size_t most) {
  if (state_ == State::ended) return 0;
  taken_ = filled_ = 0;
  const std::size_t missing = incoming_ ? incoming_->part.size() - incoming_->filled : 0;
  const std::size_t in_place = missing > kReadInPlace ? std::min(missing, most) : 0;
  std::array<iovec, 2> places = {
      iovec{in_place == 0 ? nullptr : incoming_->part.data<char>() + incoming_->filled, in_place},
      iovec{buffer_.data(), buffer_.size()}};
  msghdr message{};
  message.msg_iov = in_place > 0 ? places.data() : &places[1];
  message.msg_iovlen = in_place == missing && in_place > 0 ? 2 : 1;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    // Reset: there was something that it had not read.
    const bool is_closed = got == 0 || errno == ECONNRESET;
    if (is_closed || (errno != EAGAIN && errno != EWOULDBLOCK))
      end(is_closed ? "closed it" : "cannot be heard: " + std::generic_category().message(errno));
    return 0;
  }
  const auto count = static_cast<std::size_t>(got);
  if (in_place > 0) incoming_->filled += std::min(count, in_place);
  filled_ = count - std::min(count, in_place);
  return count;
}

bool ZmtpStream::collect(std::size_t size) {
  const std::size_t count = std::min(size - std::min(size, partial_.size()), unread());
  partial_.append(buffer_.data() + taken_, count);
  taken_ += count;
  return partial_.size() >= size;
}

bool ZmtpStream::take_greeting() {
  if (!collect(kGreetingSize)) return false;
  const std::string theirs = std::exchange(partial_, {});
  if (theirs[0] != '\xff' || theirs[9] != '\x7f' || static_cast<unsigned char>(theirs[10]) < 3) {
    refuse("does not speak ZMTP 3");
    return false;
  }
  constexpr std::string_view kNull("NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", kMechanismSize);
  if (std::string_view(theirs).substr(kMechanismAt, kMechanismSize) != kNull) {
    has_other_mechanism_ = true;
    refuse("asks for another security mechanism");
    return false;
  }
  state_ = State::ready;
  return true;
}

bool ZmtpStream::begin_part() {
  if (partial_.empty() && unread() == 0) return false;
  // Most headers are there whole: they are read where they lie.
  const bool is_apart = !partial_.empty() || unread() < 9;
  if (is_apart && !collect(2)) return false;
  const auto* header =
      reinterpret_cast<const unsigned char*>(is_apart ? partial_.data() : buffer_.data() + taken_);
  const auto flags = header[0];
  if ((flags & ~(kMore | kLong | kCommand)) != 0) {
    refuse("sent what is no frame of ZMTP");
    return false;
  }
  const std::size_t header_size = (flags & kLong) != 0 ? 9 : 2;
  if (is_apart) {
    if (!collect(header_size)) return false;
    header = reinterpret_cast<const unsigned char*>(partial_.data());
  }
  std::uint64_t size = header_size == 2 ? header[1] : 0;
  for (std::size_t i = 1; header_size == 9 && i < 9; ++i) size = size << 8 | header[i];
  if (is_apart) {
    partial_.clear();
  } else {
    taken_ += header_size;
  }
  bytes_ += static_cast<std::size_t>(std::min<std::uint64_t>(size, kPartLimit));
  if (size > kPartLimit || bytes_ > kMessageLimit) {
    refuse("sent a part of " + std::to_string(size) + " bytes" +
           (size > kPartLimit ? "" : ", too many for one message"));
    return false;
  }
  try {
    incoming_.emplace(Incoming{BlockPool::part(static_cast<std::size_t>(size)), 0,
                               (flags & kMore) != 0, (flags & kCommand) != 0});
  } catch (const std::bad_alloc&) {
    refuse("sent a part of " + std::to_string(size) + " bytes, for which there is no memory");
    return false;
  }
  return true;
}

bool ZmtpStream::take_part() {
  if (!incoming_ && !begin_part()) return false;
  const std::size_t count = std::min(unread(), incoming_->part.size() - incoming_->filled);
  if (count > 0)
    std::memcpy(incoming_->part.data<char>() + incoming_->filled, buffer_.data() + taken_, count);
  taken_ += count;
  incoming_->filled += count;
  return incoming_->filled == incoming_->part.size();
}

void ZmtpStream::on_command(std::string_view command) {
  if (state_ == State::ready) {
    if (!command.starts_with(kReadyName)) {
      refuse("refused the handshake");
    } else if (!is_fitting(command.substr(kReadyName.size()))) {
      refuse("is no DEALER, ROUTER or REQ");
    } else {
      state_ = State::open;
      was_open_ = true;
    }
    return;
  }
  if (!command.starts_with(kPingName) || command.size() < kPingName.size() + kTimeToLive) return;
  pong_ = std::string(kPongName) +
          std::string(command.substr(kPingName.size() + kTimeToLive, kMostContext));
}

ZmtpStream::Next ZmtpStream::next(std::vector<zmq::message_t>& parts) {
  if (state_ == State::greeting && !take_greeting()) return Next::none;
  while (state_ != State::ended) {
    if (!take_part()) {
      if (pong_ && leaving_.empty()) write_on();
      return Next::none;
    }
    Incoming whole = *std::exchange(incoming_, std::nullopt);
    if (whole.is_command || state_ == State::ready) {
      if (parts_.empty()) bytes_ = 0;
      const bool was_open = is_open();
      on_command(whole.is_command ? whole.part.to_string_view() : std::string_view());
      if (is_open() && !was_open) return Next::opened;
      continue;
    }
    if (parts_.size() == kMostParts) {
      refuse("sent a message of more than " + std::to_string(kMostParts) + " parts");
      break;
    }
    parts_.push_back(std::move(whole.part));
    if (whole.has_more) continue;
    bytes_ = 0;
    parts = std::exchange(parts_, {});
    return Next::message;
  }
  return Next::none;
}

void ZmtpStream::add_piece(zmq::message_t body, std::uint8_t flags) {
  Piece& piece = leaving_.emplace_back();
  const std::size_t size = body.size();
  if (size < 256) {
    piece.header = {flags, static_cast<std::uint8_t>(size)};
    piece.header_size = 2;
  } else {
    piece.header[0] = flags | kLong;
    for (std::size_t at = 0; at < 8; ++at)
      piece.header[8 - at] =
          static_cast<std::uint8_t>(static_cast<std::uint64_t>(size) >> (8 * at));
    piece.header_size = 9;
  }
  piece.body = std::move(body);
}

bool ZmtpStream::send(Frame& frame) {
  if (!write_on()) return false;
  send_behind(frame);
  return true;
}

void ZmtpStream::send_behind(Frame& frame) {
  for (std::size_t i = 0; i < frame.parts.size(); ++i)
    add_piece(std::move(frame.parts[i]), i + 1 < frame.parts.size() ? kMore : 0);
  write_on();
}

bool ZmtpStream::write_on() {
  for (;;) {
    if (!write_pieces()) return false;
    leaving_.clear();
    next_ = left_ = 0;
    if (!pong_) return true;
    add_piece(zmq::message_t(*std::exchange(pong_, std::nullopt)), kCommand);
  }
}

bool ZmtpStream::write_pieces() {
  while (next_ < leaving_.size()) {
    std::array<iovec, 2 * kMostPieces> buffers;
    std::size_t count = 0;
    for (std::size_t i = next_; i < leaving_.size() && count + 2 <= buffers.size(); ++i) {
      Piece& piece = leaving_[i];
      const std::size_t skip = i == next_ ? left_ : 0;
      if (skip < piece.header_size)
        buffers[count++] = {piece.header.data() + skip, piece.header_size - skip};
      const std::size_t skip_body = skip - std::min(skip, piece.header_size);
      if (skip_body < piece.body.size())
        buffers[count++] = {piece.body.data<char>() + skip_body, piece.body.size() - skip_body};
    }
    msghdr message{};
    message.msg_iov = buffers.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (sent < 0) {
      // The other side is gone, or half a frame has left and the rest cannot: what it sent before
      // is still to be read, and then the end.
      ::shutdown(fd_.get(), SHUT_RDWR);
      return true;
    }
    left_ += static_cast<std::size_t>(sent);
    while (next_ < leaving_.size()) {
      const std::size_t size = leaving_[next_].header_size + leaving_[next_].body.size();
      if (left_ < size) break;
      left_ -= size;
      ++next_;
    }
  }
  return true;
}

bool ZmtpStream::wait_writable(std::chrono::steady_clock::time_point until) const {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd one = {fd_.get(), POLLOUT, 0};
  const int ready = ::poll(&one, 1, static_cast<int>(left.count()));
  return ready == 1 || (ready < 0 && errno == EINTR);
}

}  // namespace meshbus
