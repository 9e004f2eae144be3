#include "common/bus/share_inbox.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <sodium.h>

#include "common/base/os_error.h"
#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"

namespace meshbus {
namespace {

/// Bytes of the random part of a name; as hex digits twice as many.
constexpr std::size_t kRandom = 16;
constexpr int kBacklog = 128;
/// Connections that one turn takes.
constexpr int kShare = 32;

/// Room for the header of one descriptor: the kernel closes what does not fit.
union Control {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

UniqueFd make_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// The descriptors that a message has brought: all are owned, so that none is forgotten.
std::optional<UniqueFd> descriptor_of(msghdr& message) {
  std::optional<UniqueFd> found;
  std::size_t count = 0;
  for (auto* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
      found = UniqueFd(descriptor);
      ++count;
    }
  }
  return count == 1 ? std::move(found) : std::nullopt;
}

}  // namespace

ShareInbox::~ShareInbox() {
  reactor_.cancel(exhausted_timer_);
  reactor_.cancel(age_timer_);
  if (listener_) reactor_.forget(listener_.get());
}

Result<void> ShareInbox::listen() {
  std::array<unsigned char, kRandom> random{};
  randombytes_buf(random.data(), random.size());
  std::array<char, 2 * kRandom + 1> hex{};
  sodium_bin2hex(hex.data(), hex.size(), random.data(), random.size());
  const std::string name = std::string(kPrefix) + hex.data();
  UniqueFd listener = make_socket();
  const UnixAddress at(name);
  if (!listener || ::bind(listener.get(), at.get(), at.size()) != 0 ||
      ::listen(listener.get(), kBacklog) != 0)
    return fail(ErrorCode::io_error, os_error("an inbox for large bodies"));
  listener_ = std::move(listener);
  address_ = name;
  watch();
  return {};
}

Result<std::string> ShareInbox::address() {
  if (!listener_) {
    if (auto listens = listen(); !listens) return fail(listens.error());
  }
  return address_;
}

void ShareInbox::watch() {
  reactor_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
}

void ShareInbox::accept() {
  const uid_t own = ::geteuid();
  for (int i = 0; i < kShare; ++i) {
    UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || exhausted_timer_ != 0) break;
      // The connection stays where it is, and would wake us again at once.
      reactor_.forget(listener_.get());
      exhausted_timer_ = reactor_.after(kExhausted, [this] {
        exhausted_timer_ = 0;
        watch();
      });
      break;
    }
    const auto peer = unix_peer_of(connection.get());
    if (!peer || !is_trusted_uid(peer->uid, own)) {
      ++refused_;
      continue;
    }
    if (read(connection.get())) continue;
    if (waiting_.size() == kMostWaiting) waiting_.pop_front();
    waiting_.push_back({std::move(connection), reactor_.now()});
  }
  watch_age();
}

bool ShareInbox::read(int connection) {
  // One byte more than a ticket has: a longer message is another one.
  std::array<char, sizeof(ShareTicket) + 1> bytes{};
  iovec part{bytes.data(), bytes.size()};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const auto size = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  auto descriptor = size < 0 ? std::nullopt : descriptor_of(message);
  if (size != sizeof(ShareTicket) || (message.msg_flags & MSG_CTRUNC) != 0 || !descriptor) {
    ++refused_;
    return true;
  }
  ShareTicket ticket;
  std::memcpy(&ticket, bytes.data(), sizeof ticket);
  if (kept_.size() == kMostKept) kept_.pop_front();
  kept_.push_back({ticket, std::move(*descriptor), reactor_.now()});
  watch_age();
  return true;
}

void ShareInbox::read_waiting() {
  std::erase_if(waiting_, [this](const Waiting& one) { return read(one.connection.get()); });
}

Result<UniqueFd> ShareInbox::take(const ShareTicket& ticket) {
  const auto find = [&] {
    return std::find_if(kept_.begin(), kept_.end(),
                        [&](const Kept& kept) { return kept.ticket == ticket; });
  };
  auto found = find();
  if (found == kept_.end() && listener_) {
    // The call that announces it may be heard before the socket is looked at.
    read_waiting();
    accept();
    found = find();
  }
  if (found == kept_.end())
    return fail(ErrorCode::io_error, "no descriptor has come with that ticket");
  UniqueFd descriptor = std::move(found->descriptor);
  kept_.erase(found);
  return descriptor;
}

void ShareInbox::watch_age() {
  if (age_timer_ != 0 || count() == 0) return;
  age_timer_ = reactor_.after(kIdle, [this] {
    age_timer_ = 0;
    const auto is_old = [now = reactor_.now()](const auto& one) {
      return now - one.since >= kIdle;
    };
    std::erase_if(waiting_, is_old);
    std::erase_if(kept_, is_old);
    watch_age();
  });
}

Result<void> ShareInbox::put(std::string_view address, const ShareTicket& ticket, int descriptor) {
  constexpr std::size_t kLongest = kPrefix.size() + 2 * kRandom;
  if (address.size() != kLongest || address.substr(0, kPrefix.size()) != kPrefix)
    return fail(ErrorCode::io_error, "no name of an inbox for large bodies");
  const UniqueFd connection = make_socket();
  const UnixAddress to(address);
  // Not in this network namespace, no descriptor left, or its queue is full: chunks do instead.
  if (!connection || ::connect(connection.get(), to.get(), to.size()) != 0)
    return fail(ErrorCode::io_error, os_error("connect to the inbox of the receiver"));
  if (auto trusted = check_unix_listener(connection.get()); !trusted) return trusted;
  ShareTicket bytes = ticket;
  iovec part{&bytes, sizeof bytes};
  Control control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  auto* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  if (::sendmsg(connection.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof bytes))
    return fail(ErrorCode::io_error, os_error("send to the inbox of the receiver"));
  return {};
}

}  // namespace meshbus
