#pragma once

#include <vector>

#include "common/base/unique_fd.h"
#include "common/base/unix_address.h"
#include "common/zmtp/tcp_address.h"

namespace meshbus {

/// Listening sockets of an earlier broker of this host, which the warden has kept. Connections that
/// were made while no broker ran wait in them.
class KeptListeners {
 public:
  KeptListeners() = default;
  explicit KeptListeners(std::vector<UniqueFd> sockets) : sockets_(std::move(sockets)) {}

  /// The socket that is bound there, and can still be reached there. Empty: there is none.
  UniqueFd take(const UnixAddress& address);
  /// The same for tcp; none has port 0.
  UniqueFd take(const TcpAddress& address);

 private:
  std::vector<UniqueFd> sockets_;
};

}  // namespace meshbus
