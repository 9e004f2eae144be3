#include "cli/hands/local_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/hands/loopback_peer.h"
#include "common/base/unix_peer.h"

namespace meshbus::cli {
namespace {

constexpr int kWaiting = 64;

}  // namespace

Result<LocalListener> LocalListener::open(const ForwardText& forward) {
  LocalListener listener;
  const auto failed = [&](const std::string& name) {
    return fail(ErrorCode::io_error, name + ": " + std::strerror(errno));
  };
  constexpr int kKind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  if (!forward.path.empty()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (forward.path.size() >= sizeof address.sun_path)
      return fail(ErrorCode::io_error,
                  forward.path + ": the path of a socket has at most 107 bytes");
    std::memcpy(address.sun_path, forward.path.c_str(), forward.path.size() + 1);
    listener.fd_ = UniqueFd(::socket(AF_UNIX, kKind, 0));
    const mode_t before = ::umask(0177);
    const int bound = listener.fd_
                          ? ::bind(listener.fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                                   sizeof address)
                          : -1;
    ::umask(before);
    if (bound != 0) return failed(forward.path);
    listener.is_path_ = true;
    listener.name_ = forward.path;
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(forward.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string name = "127.0.0.1:" + std::to_string(forward.port);
    listener.fd_ = UniqueFd(::socket(AF_INET, kKind, 0));
    const int yes = 1;
    if (!listener.fd_ ||
        ::setsockopt(listener.fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(listener.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
            0)
      return failed(name);
    socklen_t size = sizeof address;
    ::getsockname(listener.fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    listener.name_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  if (::listen(listener.fd_.get(), kWaiting) != 0) return failed(listener.name_);
  return listener;
}

LocalListener::~LocalListener() {
  if (fd_ && is_path_) ::unlink(name_.c_str());
}

UniqueFd LocalListener::accept() const {
  UniqueFd connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int yes = 1;
  if (connection && !is_path_)
    ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return connection;
}

Result<void> LocalListener::check_peer(int connection) const {
  if (is_path_) return {};  // its file is this user's alone
  const auto user = user_of_loopback_peer(connection);
  if (user && is_trusted_uid(*user, ::geteuid())) return {};
  return fail(ErrorCode::unauthorised,
              "a connection to " + name_ + " is refused: it comes from " +
                  (user ? "user " + std::to_string(*user) : "a process that has gone already"));
}

}  // namespace meshbus::cli
