#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/base/unique_fd.h"
#include "common/base/unix_peer.h"

namespace meshbus {
namespace {

constexpr int kConnectMs = 1000;

Result<void> try_connect(int family, const sockaddr* address, socklen_t length) {
  const UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail(ErrorCode::io_error, std::string("socket: ") + std::strerror(errno));
  if (::connect(fd.get(), address, length) == 0) return family == AF_UNIX ? check_unix_listener(fd.get()) : Result<void>();
  int error = errno;
  // A full backlog of a unix socket: somebody listens.
  if (error == EAGAIN) return {};
  if (error == EINPROGRESS) {
    pollfd ready{fd.get(), POLLOUT, 0};
    if (::poll(&ready, 1, kConnectMs) <= 0) return fail(ErrorCode::host_unreachable, "connect: no answer");
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return {};
  }
  const bool is_nobody = error == ECONNREFUSED || error == ENOENT;
  return fail(is_nobody ? ErrorCode::not_exist : ErrorCode::host_unreachable, std::string("connect: ") + std::strerror(error));
}

}  // namespace

Result<void> probe(const HostAddr& host) {
  if (host.transport() == Transport::unix_socket) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto path = host.path();
    if (path.size() >= sizeof address.sun_path) return fail(ErrorCode::host_unreachable, "the path is too long for a socket");
    std::memcpy(address.sun_path, path.data(), path.size());
    const bool is_abstract = path.starts_with('@');
    if (is_abstract) address.sun_path[0] = '\0';
    const auto length = offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1);
    return try_connect(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(length));
  }
  if (host.transport() != Transport::tcp) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(std::string(host.host()).c_str(), std::to_string(host.port()).c_str(), &hints, &found);
  if (error != 0) return fail(ErrorCode::host_unreachable, "cannot find " + std::string(host.host()) + ": " + ::gai_strerror(error));
  Result<void> result = fail(ErrorCode::host_unreachable, std::string(host.host()) + " has no address");
  for (const auto* at = found; at != nullptr; at = at->ai_next) {
    result = try_connect(at->ai_family, at->ai_addr, at->ai_addrlen);
    if (result) break;
  }
  ::freeaddrinfo(found);
  return result;
}

}  // namespace meshbus
