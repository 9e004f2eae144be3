#include "broker/access/dial_policy.h"

#include "common/wire/control.h"

namespace meshbus {

Result<void> may_dial(const HostAddr& host, bool is_local) {
  if (is_local || host.transport() != Transport::unix_socket) return {};
  return fail(ErrorCode::unauthorised,
              cut_text(host.to_string(), 256) +
                  " is a socket of this host's machine, and this broker connects to such sockets "
                  "only for processes that came by its own unix "
                  "socket: run the command on that machine with --hosts unix:PATH, or name that "
                  "host by its tcp address");
}

}  // namespace meshbus
