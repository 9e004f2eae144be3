#include "broker/transport/kept_listeners.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace meshbus {
namespace {

/// Whether the file of a bound unix socket is still there; abstract names have none.
bool has_file(const sockaddr_un& bound) {
  struct stat info{};
  return bound.sun_path[0] == '\0' ||
         (::lstat(bound.sun_path, &info) == 0 && S_ISSOCK(info.st_mode));
}

bool is_bound_to(int socket, const UnixAddress& address) {
  sockaddr_un bound{};
  socklen_t size = sizeof bound;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) == 0 &&
         size == address.size() && std::memcmp(&bound, address.get(), size) == 0 && has_file(bound);
}

UniqueFd take_if(std::vector<UniqueFd>& sockets, const auto& is_wanted) {
  const auto found = std::find_if(sockets.begin(), sockets.end(),
                                  [&](const UniqueFd& one) { return is_wanted(one.get()); });
  if (found == sockets.end()) return {};
  UniqueFd taken = std::move(*found);
  sockets.erase(found);
  return taken;
}

}  // namespace

UniqueFd KeptListeners::take(const UnixAddress& address) {
  return take_if(sockets_, [&](int socket) { return is_bound_to(socket, address); });
}

UniqueFd KeptListeners::take(const TcpAddress& address) {
  return take_if(sockets_, [&](int socket) {
    const auto own = TcpAddress::of_own(socket);
    return own && own->size() == address.size() &&
           std::memcmp(own->get(), address.get(), address.size()) == 0;
  });
}

}  // namespace meshbus
