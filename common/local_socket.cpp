#include "common/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "common/zmq_socket.h"

namespace meshbus {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kIpc = "ipc://";
constexpr std::size_t kBufferSize = 64 * 1024;
/// A part with more than so much to come is read where it belongs.
constexpr std::size_t kReadInPlace = 8 * 1024;
/// Buffers in one system call.
constexpr std::size_t kMostPieces = 64;

// ZMTP 3.0, RFC 23.
constexpr std::size_t kGreetingSize = 64;
constexpr std::size_t kMechanismAt = 12;
constexpr std::size_t kMechanismSize = 20;
constexpr std::uint8_t kMore = 1;
constexpr std::uint8_t kLong = 2;
constexpr std::uint8_t kCommand = 4;
constexpr std::string_view kReadyName = "\5READY"sv;

/// The greeting, and behind it the command READY.
std::string greeting() {
  std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"sv);
  text.resize(kGreetingSize, '\0');
  const std::string ready = std::string(kReadyName) + std::string("\13Socket-Type\0\0\0\6DEALER"sv);
  return text + static_cast<char>(kCommand) + static_cast<char>(ready.size()) + ready;
}

sockaddr_un address_of(std::string_view path, socklen_t& size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw std::system_error(ENAMETOOLONG, std::generic_category(), "a unix socket of " + std::to_string(path.size()) + " bytes");
  path.copy(address.sun_path, path.size());
  const bool is_abstract = path.front() == '@';
  if (is_abstract) address.sun_path[0] = '\0';
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
  return address;
}

}  // namespace

std::unique_ptr<BrokerSocket> BrokerSocket::open(Reactor& reactor, zmq::context_t& context, const Options& options, Events events) {
  if (options.endpoint.starts_with(kIpc)) return std::make_unique<LocalSocket>(reactor, options.endpoint, std::move(events));
  return std::make_unique<ZmqSocket>(reactor, context, options, std::move(events));
}

LocalSocket::LocalSocket(Reactor& reactor, const std::string& endpoint, Events events)
    : reactor_(reactor),
      handlers_(std::make_shared<Handlers>(Handlers{std::move(events)})),
      fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferSize)) {
  socklen_t size = 0;
  const sockaddr_un address = address_of(std::string_view(endpoint).substr(kIpc.size()), size);
  if (!fd_ || ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    throw std::system_error(errno, std::generic_category());
  const std::string hello = greeting();
  if (::send(fd_.get(), hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size()))
    throw std::system_error(errno, std::generic_category());
  watch(/*for_writing=*/false);
}

LocalSocket::~LocalSocket() {
  handlers_->is_gone = true;
  reactor_.forget_socket(this);
  write_on();
}

void LocalSocket::watch(bool for_writing) {
  watches_writing_ = for_writing;
  reactor_.watch_edges(this, fd_.get(), EPOLLIN | EPOLLRDHUP | (for_writing ? EPOLLOUT : 0U), [this] { return on_event(); });
}

bool LocalSocket::on_event() {
  const auto handlers = handlers_;
  if (watches_writing_ && write_on()) {
    watch(/*for_writing=*/false);
    handlers->on.on_writable();
    if (handlers->is_gone) return false;
  }
  if (state_ == State::greeting || state_ == State::ready) {
    if (!shake_hands()) {
      if (!handlers->is_gone && state_ == State::ended) handlers->on.on_ended(std::string(why_ended_));
      return false;
    }
    handlers->on.on_open();
    if (handlers->is_gone) return false;
  }
  const bool is_more = handlers->on.on_readable();
  if (handlers->is_gone) return false;
  if (!is_more && state_ == State::ended) handlers->on.on_ended(std::string(why_ended_));
  return is_more;
}

void LocalSocket::end(std::string why) {
  state_ = State::ended;
  why_ended_ = std::move(why);
}

bool LocalSocket::shake_hands() {
  if (state_ == State::greeting) {
    while (buffered() < kGreetingSize) {
      if (!fill()) return false;
    }
    const std::string_view theirs(buffer_.get() + taken_, kGreetingSize);
    const bool is_zmtp = theirs[0] == '\xff' && theirs[9] == '\x7f' && static_cast<unsigned char>(theirs[10]) >= 3;
    if (!is_zmtp ||
        theirs.substr(kMechanismAt, kMechanismSize) != std::string_view("NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", kMechanismSize)) {
      end(is_zmtp ? "the broker asks for another security mechanism" : "what answers there does not speak ZMTP 3");
      const auto handlers = handlers_;
      if (is_zmtp) handlers->on.on_handshake_failed(Failure::mechanism);
      return false;
    }
    taken_ += kGreetingSize;
    state_ = State::ready;
  }
  while (!parse()) {
    if (!fill()) return false;
  }
  const auto command = std::exchange(incoming_, std::nullopt);
  if (!command->is_command || !command->part.to_string_view().starts_with(kReadyName)) {
    end("the broker refused the handshake");
    return false;
  }
  state_ = State::open;
  return true;
}

bool LocalSocket::fill() {
  if (state_ == State::ended) return false;
  const bool is_in_place = incoming_ && buffered() == 0 && incoming_->part.size() - incoming_->filled > kReadInPlace;
  if (!is_in_place && taken_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + taken_, buffered());
    filled_ -= std::exchange(taken_, 0);
  }
  char* to = is_in_place ? incoming_->part.data<char>() + incoming_->filled : buffer_.get() + filled_;
  const std::size_t room = is_in_place ? incoming_->part.size() - incoming_->filled : kBufferSize - filled_;
  ssize_t count = 0;
  do {
    count = ::recv(fd_.get(), to, room, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    // Reset: there was something that it had not read.
    const bool is_closed = count == 0 || errno == ECONNRESET;
    if (is_closed || (errno != EAGAIN && errno != EWOULDBLOCK))
      end(is_closed ? "the broker closed it" : std::generic_category().message(errno));
    return false;
  }
  (is_in_place ? incoming_->filled : filled_) += static_cast<std::size_t>(count);
  return true;
}

bool LocalSocket::parse() {
  if (!incoming_ && !begin_part()) return false;
  const std::size_t count = std::min(buffered(), incoming_->part.size() - incoming_->filled);
  std::memcpy(incoming_->part.data<char>() + incoming_->filled, buffer_.get() + taken_, count);
  taken_ += count;
  incoming_->filled += count;
  return incoming_->filled == incoming_->part.size();
}

bool LocalSocket::begin_part() {
  const auto* header = reinterpret_cast<const unsigned char*>(buffer_.get() + taken_);
  if (buffered() < 2) return false;
  const bool is_known = (header[0] & ~(kMore | kLong | kCommand)) == 0;
  const std::size_t header_size = (header[0] & kLong) != 0 ? 9 : 2;
  if (is_known && buffered() < header_size) return false;
  std::uint64_t size = header[1];
  for (std::size_t i = 2; is_known && i < header_size; ++i) size = size << 8 | header[i];
  if (!is_known || size > kPartLimit) {
    refuse(is_known ? "a part of " + std::to_string(size) + " bytes" : "what is no frame of ZMTP");
    return false;
  }
  taken_ += header_size;
  incoming_.emplace(Incoming{zmq::message_t(static_cast<std::size_t>(size)), 0, (header[0] & kMore) != 0, (header[0] & kCommand) != 0});
  return true;
}

void LocalSocket::refuse(const std::string& what) {
  taken_ = filled_ = 0;
  parts_.clear();
  end("the broker sent " + what);
}

bool LocalSocket::receive(std::vector<zmq::message_t>& parts) {
  for (;;) {
    while (!parse()) {
      if (!fill()) return false;
    }
    Incoming whole = *std::exchange(incoming_, std::nullopt);
    if (whole.is_command) continue;  // nothing that a DEALER has to know
    if (parts_.size() == kMostParts) {
      refuse("a message of more than " + std::to_string(kMostParts) + " parts");
      return false;
    }
    parts_.push_back(std::move(whole.part));
    if (whole.has_more) continue;
    parts = std::exchange(parts_, {});
    return true;
  }
}

bool LocalSocket::send(Frame& frame) {
  if (!write_on()) return false;
  for (std::size_t i = 0; i < frame.parts.size(); ++i) {
    Piece& piece = leaving_.emplace_back();
    const std::size_t size = frame.parts[i].size();
    const std::uint8_t more = i + 1 < frame.parts.size() ? kMore : 0;
    if (size < 256) {
      piece.header = {more, static_cast<std::uint8_t>(size)};
      piece.header_size = 2;
    } else {
      piece.header[0] = more | kLong;
      for (std::size_t at = 0; at < 8; ++at) piece.header[8 - at] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(size) >> (8 * at));
      piece.header_size = 9;
    }
    piece.body = std::move(frame.parts[i]);
  }
  if (!write_on() && !watches_writing_) watch(/*for_writing=*/true);
  return true;
}

bool LocalSocket::write_on() {
  while (next_ < leaving_.size()) {
    std::array<iovec, 2 * kMostPieces> buffers;
    std::size_t count = 0;
    for (std::size_t i = next_; i < leaving_.size() && count + 2 <= buffers.size(); ++i) {
      Piece& piece = leaving_[i];
      const std::size_t skip = i == next_ ? left_ : 0;
      if (skip < piece.header_size) buffers[count++] = {piece.header.data() + skip, piece.header_size - skip};
      const std::size_t skip_body = skip - std::min(skip, piece.header_size);
      if (skip_body < piece.body.size()) buffers[count++] = {piece.body.data<char>() + skip_body, piece.body.size() - skip_body};
    }
    msghdr message{};
    message.msg_iov = buffers.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_writable()) return false;
      continue;
    }
    if (sent < 0) break;  // The other side is gone: what it sent before is still to be read, and then its end.
    left_ += static_cast<std::size_t>(sent);
    while (next_ < leaving_.size()) {
      const std::size_t size = leaving_[next_].header_size + leaving_[next_].body.size();
      if (left_ < size) break;
      left_ -= size;
      ++next_;
    }
  }
  leaving_.clear();
  next_ = left_ = 0;
  return true;
}

void LocalSocket::set_linger(std::chrono::milliseconds linger) {
  lingers_until_ = Reactor::Clock::now() + linger;
}

bool LocalSocket::wait_writable() {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(lingers_until_ - Reactor::Clock::now());
  if (left.count() <= 0) return false;
  pollfd one = {fd_.get(), POLLOUT, 0};
  return ::poll(&one, 1, static_cast<int>(left.count())) == 1;
}

}  // namespace meshbus
