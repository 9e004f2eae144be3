#pragma once

#include <string>

#include "broker/access/key_service.h"
#include "common/security/join_token.h"
#include "common/wire/protocol.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Lets new hosts in that come with a one-time token
/// (docs/decisions/0021-a-new-host-joins.md). Lives on the reactor's thread.
class HostJoining {
 public:
  HostJoining(KeyService& keys, HostAddr host, Protocol protocol)
      : keys_(keys), host_(std::move(host)), protocol_(protocol) {}

  /// Takes the token of a new host: the keys that the new host is to know, as text. `address` is
  /// where the new host connects from. Errors: unauthorised (used, expired), identity_mismatch,
  /// configuration_error, malformed_message, too_large, version_mismatch, io_error.
  Result<std::string> take(const TokenRecord& token, const wire::Hello& hello,
                           const std::string& address);

 private:
  /// Errors: version_mismatch, identity_mismatch, malformed_message, unauthorised.
  Result<std::string> check(const TokenRecord& token, const wire::Hello& hello) const;
  /// Uses the token up and lets its host be known; without a path it is already.
  Result<void> let_in(const TokenRecord& token, const std::string& key, const std::string& path,
                      const std::string& address);

  KeyService& keys_;
  HostAddr host_;
  Protocol protocol_;
};

}  // namespace meshbus
