#include "common/base/unix_peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace meshbus {

std::optional<UnixPeer> unix_peer_of(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  // The kernel gives this uid when it knows no process.
  if (peer.uid == static_cast<uid_t>(-1)) return std::nullopt;
  return UnixPeer{peer.uid, peer.pid};
}

Result<void> check_unix_listener(int descriptor) {
  const uid_t own = ::geteuid();
  const auto peer = unix_peer_of(descriptor);
  if (!peer)
    return fail(ErrorCode::unauthorised, "the kernel does not say which user listens there");
  if (is_trusted_uid(peer->uid, own)) return {};
  return fail(ErrorCode::unauthorised,
              "user " + std::to_string(peer->uid) + " listens there, and this process of user " +
                  std::to_string(own) +
                  " trusts its own user and root only; use the socket of a host of yours");
}

}  // namespace meshbus
