#include "common/http/http_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/os_error.h"

namespace meshbus::http {
namespace {

constexpr int kBacklog = 64;
constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

Error no_address(const std::string& text, const std::string& why) {
  return {ErrorCode::configuration_error, text + ": " + why};
}

bool is_served(const sockaddr_un& address, socklen_t length) {
  const UniqueFd probe(::socket(AF_UNIX, kSocketFlags, 0));
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 ||
         errno == EAGAIN;
}

Result<UniqueFd> listen_unix(const HostAddr& host, const std::string& text) {
  const std::string path(host.path());
  if (path.empty() || path.front() != '/') return fail(no_address(text, "expected unix:/PATH"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return fail(no_address(text, "the path is too long"));
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto length = static_cast<socklen_t>(sizeof address);
  UniqueFd socket(::socket(AF_UNIX, kSocketFlags, 0));
  if (!socket) return fail(ErrorCode::io_error, os_error(text));
  struct stat existing{};
  if (::lstat(path.c_str(), &existing) == 0) {
    const bool is_ours = S_ISSOCK(existing.st_mode) && existing.st_uid == ::geteuid();
    if (!is_ours)
      return fail(ErrorCode::io_error,
                  text + ": there is a file already, and it is no socket of this user");
    if (is_served(address, length)) return fail(ErrorCode::io_error, text + ": already in use");
    ::unlink(path.c_str());
  }
  // The file never has a wider mode, not even for a moment.
  const mode_t before = ::umask(0177);
  const int bound = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length);
  const int error = errno;
  ::umask(before);
  if (bound != 0) return fail(ErrorCode::io_error, text + ": " + std::strerror(error));
  if (::listen(socket.get(), kBacklog) != 0) return fail(ErrorCode::io_error, os_error(text));
  return socket;
}

Result<UniqueFd> listen_tcp(const HostAddr& host, const std::string& text) {
  const bool is_named = host.host() == "localhost";
  const std::string name(is_named ? "127.0.0.1" : host.host() == "*" ? "0.0.0.0" : host.host());
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(host.port());
  if (::getaddrinfo(name.c_str(), port.c_str(), &hints, &list) != 0)
    return fail(no_address(text, "expected an IP address, localhost or *"));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found(list, &::freeaddrinfo);
  UniqueFd socket(::socket(found->ai_family, kSocketFlags, 0));
  if (!socket) return fail(ErrorCode::io_error, os_error(text));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    return fail(ErrorCode::io_error, os_error(text));
  return socket;
}

/// The port that the kernel chose, if it was to choose one.
Result<std::uint16_t> port_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return fail(ErrorCode::io_error, os_error("getsockname"));
  const auto port = address.ss_family == AF_INET6
                        ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                        : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

}  // namespace

Result<HttpSocket> adopt_http_socket(UniqueFd fd, const std::string& address) {
  int listens = 0;
  socklen_t length = sizeof listens;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 || listens == 0)
    return fail(ErrorCode::io_error,
                "descriptor " + std::to_string(fd.get()) + " is no listening socket");
  auto host = HostAddr::parse(address);
  if (!host) return fail(host.error());
  HttpSocket made{.fd = std::move(fd), .url = address, .address = *host, .path = {}};
  if (host->transport() == Transport::unix_socket) {
    made.path = host->path();
    return made;
  }
  const auto port = port_of(made.fd.get());
  if (!port) return fail(port.error());
  auto served = HostAddr::tcp(host->host(), *port);
  if (!served) return fail(served.error());
  made.address = *served;
  const std::string shown(host->host());
  made.url =
      "http://" + (host->is_ipv6() ? "[" + shown + "]" : shown) + ":" + std::to_string(*port);
  return made;
}

Result<HttpSocket> listen_http(const std::string& address) {
  const auto host = HostAddr::parse(address);
  if (!host) return fail(host.error());
  if (host->transport() == Transport::local)
    return fail(no_address(address, "expected tcp:HOST:PORT or unix:PATH"));
  auto socket = host->transport() == Transport::tcp ? listen_tcp(*host, address)
                                                    : listen_unix(*host, address);
  if (!socket) return fail(socket.error());
  return adopt_http_socket(std::move(*socket), address);
}

}  // namespace meshbus::http
