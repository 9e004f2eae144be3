#include "agent/hands/port_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "agent/hands/carrier.h"
#include "common/base/exit_codes.h"
#include "common/base/unique_fd.h"

namespace meshbus::hands {
namespace {

int fail_with(std::uint16_t port, int error, int code) {
  std::fprintf(stderr, "meshbus: 127.0.0.1:%u: %s\n", unsigned{port}, std::strerror(error));
  return code;
}

}  // namespace

int carry_connection(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // To this machine: it is accepted or refused at once.
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_with(port, errno, exits::kUnavailable);
  ::signal(SIGPIPE, SIG_IGN);
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, socket.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  Carrier there(STDIN_FILENO, socket.get());
  Carrier back(socket.get(), STDOUT_FILENO);
  bool is_there_shut = false;
  bool is_back_shut = false;
  while (!back.is_done() || !there.is_done()) {
    pollfd fds[] = {
        {there.wants_read() ? STDIN_FILENO : -1, POLLIN, 0},
        {socket.get(), 0, 0},
        {back.wants_write() ? STDOUT_FILENO : -1, POLLOUT, 0},
    };
    if (back.wants_read()) fds[1].events |= POLLIN;
    if (there.wants_write()) fds[1].events |= POLLOUT;
    if (fds[1].events == 0) fds[1].fd = -1;
    if (::poll(fds, 3, -1) < 0 && errno != EINTR) return exits::kOwnFailure;
    if (fds[0].revents != 0) there.read();
    if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && back.wants_read()) back.read();
    // The server reads no more; its reply may still come.
    if (there.wants_write() && !there.write()) there.stop();
    if (back.wants_write() && !back.write()) return fail_with(port, errno, exits::kFailed);
    if (back.is_done() && back.error() != 0) return fail_with(port, back.error(), exits::kFailed);
    if (there.is_done() && !is_there_shut) {
      is_there_shut = true;
      ::shutdown(socket.get(), SHUT_WR);
    }
    if (back.is_done() && !is_back_shut) {
      is_back_shut = true;
      ::close(STDOUT_FILENO);
    }
  }
  return 0;
}

}  // namespace meshbus::hands
