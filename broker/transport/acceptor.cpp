#include "broker/transport/acceptor.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/unix_address.h"
#include "common/base/unix_peer.h"

namespace meshbus {
namespace {

constexpr int kBacklog = 4096;
/// Connections that are taken in one turn.
constexpr int kMostAccepted = 256;
/// For a descriptor to become free.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

Acceptor::~Acceptor() {
  for (const UniqueFd& listener : listeners_) reactor_.forget(listener.get());
}

void Acceptor::listen(const std::string& path, UniqueFd kept) {
  const UnixAddress address(path);
  add(bound(address.get(), address.size(), std::move(kept)), /*is_tcp=*/false);
}

TcpAddress Acceptor::listen(const TcpAddress& address, UniqueFd kept) {
  UniqueFd listener = bound(address.get(), address.size(), std::move(kept));
  const auto own = TcpAddress::of_own(listener.get());
  if (!own) throw std::system_error(errno, std::generic_category());
  add(std::move(listener), /*is_tcp=*/true);
  return *own;
}

UniqueFd Acceptor::bound(const sockaddr* address, socklen_t size, UniqueFd kept) {
  if (kept) return kept;
  UniqueFd listener(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  if (listener && address->sa_family != AF_UNIX)
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // IPv4 comes in by [::] as well.
  if (listener && address->sa_family == AF_INET6)
    ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!listener || ::bind(listener.get(), address, size) != 0)
    throw std::system_error(errno, std::generic_category());
  return listener;
}

std::vector<int> Acceptor::listeners() const {
  std::vector<int> descriptors;
  for (const UniqueFd& listener : listeners_) descriptors.push_back(listener.get());
  return descriptors;
}

void Acceptor::add(UniqueFd listener, bool is_tcp) {
  if (::listen(listener.get(), kBacklog) != 0)
    throw std::system_error(errno, std::generic_category());
  watch(listener.get(), is_tcp);
  listeners_.push_back(std::move(listener));
}

void Acceptor::watch(int listener, bool is_tcp) {
  reactor_.watch(listener, EPOLLIN,
                 [this, listener, is_tcp](std::uint32_t) { accept_all(listener, is_tcp); });
}

void Acceptor::accept_all(int listener, bool is_tcp) {
  for (int i = 0; i < kMostAccepted; ++i) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      // It went away before.
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN) {
        limited_log_.warn("no connection can be accepted: " +
                          std::generic_category().message(errno));
        accept_later(listener, is_tcp);
      }
      return;
    }
    take(std::move(fd), is_tcp);
  }
}

void Acceptor::take(UniqueFd fd, bool is_tcp) {
  std::optional<TcpAddress> from;
  if (is_tcp && !(from = TcpAddress::of_peer(fd.get()))) return;  // it has gone
  if (const auto why =
          gate_.refuse(fd.get(), from ? from->network() : std::string(), reactor_.now())) {
    limited_log_.warn("a connection is closed as soon as it came: " + *why);
    return;
  }
  if (is_tcp || is_trusted(fd.get())) on_connection_(std::move(fd), from);
}

bool Acceptor::is_trusted(int descriptor) {
  const auto peer = unix_peer_of(descriptor);
  if (peer && may_connect(peer->uid, own_user_)) return true;
  limited_log_.warn(
      "a connection to a unix socket is refused: it comes from " +
      (peer ? "user " + std::to_string(peer->uid) + ", pid " + std::to_string(peer->pid)
            : "an unknown user"));
  return false;
}

void Acceptor::accept_later(int listener, bool is_tcp) {
  reactor_.forget(listener);
  reactor_.after(kAcceptAgain, [this, listener, is_tcp, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) watch(listener, is_tcp);
  });
}

}  // namespace meshbus
