#pragma once

#include <sys/types.h>

#include <optional>
#include <stdexcept>

#include "meshbus/result.h"

namespace meshbus {

/// The process at the other end of a unix connection. The kernel noted it when that process
/// connected, or when it began to listen.
struct UnixPeer {
  uid_t uid;
  pid_t pid;
};

/// Nothing: the descriptor is no unix connection, or the kernel does not tell.
std::optional<UnixPeer> unix_peer_of(int descriptor);

/// The one rule for both ends of a unix connection: a process trusts its own user, and root.
constexpr bool is_trusted_uid(uid_t uid, uid_t own) noexcept {
  return uid == own || uid == 0;
}

/// Whether the listening end takes a connection at all. The broker of root takes those of other
/// users too: its procs may run as another user, and a token proves what they are (Admission).
constexpr bool may_connect(uid_t uid, uid_t own) noexcept {
  return own == 0 || is_trusted_uid(uid, own);
}

/// Another user listens at a unix socket: nothing was written there, and nothing is believed.
class UntrustedListener : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// For the connecting end, before it writes or believes a byte. Errors: unauthorised (another user
/// listens there, or nobody can tell).
Result<void> check_unix_listener(int descriptor);

}  // namespace meshbus
