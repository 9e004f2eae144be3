#include "common/zmtp/zmtp_stream.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "common/base/block_pool.h"
#include "common/zmtp/curve_traffic.h"
#include "common/zmtp/zmtp_flags.h"

namespace meshbus {
namespace {

using namespace std::string_view_literals;

/// All parts of a message: a frame that was almost full (kFrameLimit, kPackLimit) when a message of
/// kBodyLimit came, and more.
constexpr std::size_t kMessageLimit = 2 * 1024 * 1024;

// ZMTP 3.0, RFC 23.
constexpr std::size_t kGreetingSize = 64;
constexpr std::size_t kMechanismAt = 12;
constexpr std::size_t kMechanismSize = 20;
constexpr std::size_t kServerAt = 32;

/// As the greeting has it.
std::string padded_name(std::string_view mechanism) {
  std::string name(mechanism);
  name.resize(kMechanismSize, '\0');
  return name;
}

}  // namespace

ZmtpStream::ZmtpStream(UniqueFd fd, std::unique_ptr<Mechanism> mechanism, Buffer& buffer)
    : fd_(std::move(fd)), mechanism_(std::move(mechanism)), receiver_(buffer) {}
ZmtpStream::ZmtpStream(ZmtpStream&&) noexcept = default;
ZmtpStream::~ZmtpStream() = default;

bool ZmtpStream::greet() {
  std::string text("\xff\0\0\0\0\0\0\0\1\x7f\3\0"sv);
  text += padded_name(mechanism_->name());
  text.resize(kGreetingSize, '\0');
  text[kServerAt] = mechanism_->is_server() ? '\1' : '\0';
  if (const std::string first = mechanism_->begin(); !first.empty()) {
    text += static_cast<char>(zmtp::kCommand);
    text += static_cast<char>(first.size());  // below 256
    text += first;
  }
  return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(text.size());
}

void ZmtpStream::end(std::string why) {
  state_ = State::ended;
  why_ended_ = std::move(why);
}

void ZmtpStream::refuse(std::string why) {
  is_refused_ = true;
  receiver_.clear();
  parts_.clear();
  end(std::move(why));
}

std::size_t ZmtpStream::fill(std::size_t most) {
  if (state_ == State::ended || state_ == State::asking) return 0;
  const ssize_t got = receiver_.read(fd_.get(), most);
  if (got > 0) {
    has_heard_ = true;
    return static_cast<std::size_t>(got);
  }
  // Reset: there was something that the other end had not read.
  const bool is_closed = got == 0 || errno == ECONNRESET;
  if (is_closed || (errno != EAGAIN && errno != EWOULDBLOCK))
    end(is_closed ? "closed it" : "cannot be heard: " + std::generic_category().message(errno));
  return 0;
}

bool ZmtpStream::take_greeting() {
  const auto greeting = receiver_.take(kGreetingSize);
  if (!greeting) return false;
  const std::string_view theirs = *greeting;
  bytes_ = kGreetingSize;
  if (theirs[0] != '\xff' || theirs[9] != '\x7f' || static_cast<unsigned char>(theirs[10]) < 3) {
    refuse("does not speak ZMTP 3");
    return false;
  }
  if (theirs.substr(kMechanismAt, kMechanismSize) != padded_name(mechanism_->name())) {
    has_other_mechanism_ = true;
    refuse("asks for another security mechanism");
    return false;
  }
  state_ = State::handshake;
  return true;
}

bool ZmtpStream::begin_part() {
  const auto header = receiver_.take_header();
  if (!header) return false;
  if (!header->is_valid) {
    refuse("sent what is no frame of ZMTP");
    return false;
  }
  if (!check_size(header->size)) return false;
  try {
    receiver_.begin(*header);
  } catch (const std::bad_alloc&) {
    refuse("sent a part of " + std::to_string(header->size) +
           " bytes, for which there is no memory");
    return false;
  }
  return true;
}

bool ZmtpStream::check_size(std::uint64_t size) {
  const std::uint64_t overhead = mechanism_->traffic() != nullptr ? CurveTraffic::kOverhead : 0;
  bytes_ += static_cast<std::size_t>(std::min<std::uint64_t>(size, kPartLimit));
  std::string_view why;
  if (size > kPartLimit + overhead) {
    why = "";
  } else if (bytes_ > kMessageLimit) {
    why = ", too many for one message";
  } else if (!is_open() && bytes_ > kHandshakeLimit) {
    why = ", too many before its handshake is over";
  } else {
    return true;
  }
  refuse("sent a part of " + std::to_string(size) + " bytes" + std::string(why));
  return false;
}

std::optional<ZmtpReceiver::Part> ZmtpStream::take_part() {
  if (!receiver_.has_begun() && !begin_part()) return std::nullopt;
  return receiver_.take_part();
}

void ZmtpStream::open() {
  state_ = State::open;
  was_open_ = true;
  bytes_ = 0;
}

void ZmtpStream::shake_hands(const ZmtpReceiver::Part& whole) {
  const std::string answer =
      mechanism_->on_command(whole.is_command ? whole.body.view() : std::string_view());
  switch (mechanism_->state()) {
    case Mechanism::State::failed: refuse(mechanism_->why_failed()); return;
    case Mechanism::State::open: open(); break;
    case Mechanism::State::asking:
      state_ = State::asking;
      // The buffer is not ours any more when the answer is known.
      if (receiver_.unread() > 0) refuse("sent more before it was let in");
      return;
    case Mechanism::State::handshake: break;
  }
  if (answer.empty()) return;
  sender_.add(MessagePart(answer), zmtp::kCommand);
  write_on();
}

void ZmtpStream::accept() {
  sender_.add(MessagePart(mechanism_->accept()), zmtp::kCommand);
  open();
  write_on();
}

void ZmtpStream::refuse_key() {
  part_with(mechanism_->refuse());
}

void ZmtpStream::turn_away() {
  part_with(mechanism_->turn_away());
}

void ZmtpStream::part_with(std::string command) {
  sender_.add(MessagePart(std::move(command)), zmtp::kCommand);
  write_on();
  refuse(mechanism_->why_failed());
}

bool ZmtpStream::decrypt(ZmtpReceiver::Part& whole) {
  CurveTraffic* traffic = mechanism_->traffic();
  const auto flags = traffic->open(whole.body.data(), whole.body.size());
  if (!flags) {
    refuse("sent a message that was changed on its way, or repeated");
    return false;
  }
  // Whole in a part of its own: its reader needs it aligned.
  const std::string_view text = whole.body.view().substr(CurveTraffic::kOverhead);
  MessagePart part = BlockPool::part(text.size());
  if (!text.empty()) std::memcpy(part.data(), text.data(), text.size());
  whole.body = std::move(part);
  whole.has_more = (*flags & CurveTraffic::kMore) != 0;
  whole.is_command = (*flags & CurveTraffic::kCommand) != 0;
  return true;
}

ZmtpStream::Next ZmtpStream::next(std::vector<MessagePart>& parts) {
  if (state_ == State::greeting && !take_greeting()) return Next::none;
  while (state_ != State::ended && state_ != State::asking) {
    auto part = take_part();
    if (!part) {
      if (heartbeats_.is_answer_due() && sender_.empty()) write_on();
      return Next::none;
    }
    ZmtpReceiver::Part& whole = *part;
    if (state_ == State::handshake) {
      shake_hands(whole);
      if (is_open()) return Next::opened;
      if (state_ == State::asking) return Next::asks;
      continue;
    }
    if (mechanism_->traffic() != nullptr && !decrypt(whole)) break;
    if (whole.is_command) {
      if (parts_.empty()) bytes_ = 0;
      heartbeats_.on_command(whole.body.view());
      continue;
    }
    if (parts_.size() == kMostParts) {
      refuse("sent a message of more than " + std::to_string(kMostParts) + " parts");
      break;
    }
    parts_.push_back(std::move(whole.body));
    if (whole.has_more) continue;
    bytes_ = 0;
    ++messages_;
    parts = std::exchange(parts_, {});
    return Next::message;
  }
  return Next::none;
}

void ZmtpStream::add(MessagePart body, std::uint8_t flags) {
  CurveTraffic* traffic = mechanism_->traffic();
  if (traffic == nullptr) {
    sender_.add(std::move(body), flags);
    return;
  }
  MessagePart sealed = BlockPool::part(body.size() + CurveTraffic::kOverhead);
  const bool is_command = (flags & zmtp::kCommand) != 0, has_more = (flags & zmtp::kMore) != 0;
  traffic->seal(static_cast<std::uint8_t>((has_more ? CurveTraffic::kMore : 0) |
                                          (is_command ? CurveTraffic::kCommand : 0)),
                body.view(), sealed.data());
  sender_.add(std::move(sealed), 0);
}

bool ZmtpStream::send(Frame& frame) {
  if (!write_on()) return false;
  send_behind(frame);
  return true;
}

void ZmtpStream::send_behind(Frame& frame) {
  for (std::size_t i = 0; i < frame.parts.size(); ++i)
    add(std::move(frame.parts[i]), i + 1 < frame.parts.size() ? zmtp::kMore : 0);
  write_on();
}

void ZmtpStream::ping(std::chrono::milliseconds time_to_live) {
  heartbeats_.ask(time_to_live);
  write_on();
}

bool ZmtpStream::write_on() {
  for (;;) {
    switch (sender_.write(fd_.get())) {
      case ZmtpSender::Written::all: break;
      case ZmtpSender::Written::full: return false;
      case ZmtpSender::Written::broken:
        // The other end is gone, or half a frame has left and the rest cannot: what it sent before
        // is still to be read, and then the end.
        ::shutdown(fd_.get(), SHUT_RDWR);
        sender_ = {};
        return true;
    }
    auto command = is_open() ? heartbeats_.take() : std::nullopt;
    if (!command) return true;
    for (; command; command = heartbeats_.take()) add(MessagePart(*command), zmtp::kCommand);
  }
}

bool ZmtpStream::has_arrived() {
  ::shutdown(fd_.get(), SHUT_WR);
  const ssize_t got = receiver_.drop(fd_.get());
  if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return true;
  int missing = 0;
  return ::ioctl(fd_.get(), SIOCOUTQ, &missing) != 0 || missing == 0;
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
