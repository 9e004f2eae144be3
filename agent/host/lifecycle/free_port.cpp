#include "agent/host/lifecycle/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "common/base/unique_fd.h"

namespace meshbus::host {

Result<std::uint16_t> find_free_port() {
  const auto problem = [](const char* call) {
    return fail(ErrorCode::io_error,
                std::string("free port: ") + call + ": " + std::strerror(errno));
  };
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return problem("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return problem("bind");
  socklen_t size = sizeof address;
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return problem("getsockname");
  return ntohs(address.sin_port);
}

}  // namespace meshbus::host
