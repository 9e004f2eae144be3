#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "broker/access/key_ring.h"
#include "broker/peers/peer.h"
#include "common/security/token.h"
#include "common/wire/protocol.h"
#include "meshbus/address.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// What the kernel, or a key, proves about the other end of a connection.
struct Credentials {
  /// The user of the connecting process, on unix sockets; nothing on tcp.
  std::optional<uid_t> uid;
  /// For people: "uid 1000, pid 4711" or "10.0.0.2".
  std::string address;
  /// The key of the connection as Z85, and its holder; empty without keys.
  std::string key = {};
  std::optional<KeyHolder> holder = {};

  static Credentials of_process(uid_t uid, pid_t pid);
  /// For a connection over tcp; an empty address is one that is not known.
  static Credentials of_address(std::string_view address);
  /// Identity::principal of a peer that has that role.
  std::string principal(wire::Role role) const;
};

/// Decides what a connection that says Hello may register as. Pure: it holds no socket, and does
/// not know which names are in use (RouteTable::may_add).
class Admission {
 public:
  struct Options {
    /// What this broker advertises: all its peers are procs of this host.
    HostAddr host;
    /// The user that may connect over a unix socket, besides root.
    uid_t uid;
    /// Peers on tcp are let in without a key (spec 13.1).
    bool insecure;
    /// What this broker speaks.
    Protocol protocol = {};
  };
  /// Without `tokens` no token is accepted.
  Admission(Options options, std::optional<TokenMaker> tokens)
      : options_(std::move(options)), tokens_(std::move(tokens)) {}

  /// Errors: version_mismatch, unauthorised, identity_mismatch; the detail is shown to the
  /// peer's user and holds no secret.
  Result<Identity> admit(const wire::Hello& hello, const Credentials& credentials) const;

 private:
  Result<Identity> identify(const wire::Hello& hello, const Credentials& credentials) const;
  Result<Identity> admit_launcher(const wire::Hello& hello, const Credentials& credentials) const;
  Result<Identity> admit_controller(const wire::Hello& hello, const Credentials& credentials) const;
  Result<Identity> admit_agent(const wire::Hello& hello, const Credentials& credentials) const;
  Result<Identity> admit_proc(const wire::Hello& hello, const Credentials& credentials) const;
  Result<Identity> admit_link(const wire::Hello& hello, const Credentials& credentials) const;
  /// The ProcId that the peer claims, completed with this host when it gave the name alone.
  Result<ProcId> claimed_proc(const wire::Hello& hello) const;
  /// The role that the other end may have, as far as its user or key tells.
  Result<wire::Role> check_user(const Credentials& credentials) const;
  /// A holder of a key with few rights has no choice of its name (LauncherName).
  Result<void> check_name(const ProcId& proc, const wire::Hello& hello, wire::Role role) const;
  /// Agents and procs live on the machine of their broker.
  Result<void> check_is_here(const Credentials& credentials) const;
  Result<void> check_token(const ProcId& proc, const wire::Hello& hello) const;

  Options options_;
  std::optional<TokenMaker> tokens_;
};

}  // namespace meshbus
