#pragma once

#include <cstdint>
#include <string>

#include "broker/peers/debts.h"
#include "common/loop/reactor.h"
#include "common/wire/outbox.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// A connection to the broker (Listener): never reused while it lives.
using ConnectionId = std::uint64_t;
/// Above all of them.
inline constexpr ConnectionId kConnectionsEnd = ConnectionId{1} << 63;

/// Who a peer has proven to be (broker/access/admission.h).
struct Identity {
  /// ProcId; of a link the HostAddr of the other broker. Canonical.
  std::string text;
  /// key_of(text)
  std::uint64_t key = 0;
  wire::PeerKind kind = wire::PeerKind::launcher;
  wire::Role role = wire::Role::none;
  std::uint64_t incarnation = 0;
  /// OS process id, as the peer says; for people.
  std::uint32_t pid = 0;
  /// Of the protocol: the newest that both sides speak.
  std::uint16_t version = 0;
  /// As in its Hello.
  std::uint64_t capabilities = 0;
  /// Who it is by its key ("operator alice"), and the key as Z85; empty without keys.
  std::string user = {};
  std::string key_text = {};

  bool is_link() const noexcept { return kind == wire::PeerKind::link; }
  /// Whether a token proved it, so that a new life may take the place of an old one.
  bool has_token() const noexcept {
    return kind == wire::PeerKind::agent || kind == wire::PeerKind::proc;
  }
};

/// A registered connection and what waits to leave for it.
struct Peer {
  Peer(Identity who, ConnectionId id, int fd, Outbox::Limits limits)
      : identity(std::move(who)),
        connection(id),
        descriptor(fd),
        outbox(limits, identity.is_link()) {}

  Identity identity;
  ConnectionId connection;
  /// Of the broker's end of the connection, to match the monitor's events and to hang up; only a
  /// number, it belongs to the listener.
  int descriptor;
  Outbox outbox;
  /// The connection is over, or another one took its place: nothing is sent any more, but what it
  /// had sent before is still taken.
  bool is_ended = false;
  /// That it was refused something has been said.
  bool is_refused_told = false;
  /// The refusal of an introduction has been logged (once per peer).
  bool is_introduction_told = false;
  /// Of who may not ask as often as he likes: see RateLimit.
  Reactor::Time requests_rested{};
  /// It is in the list of those that have something to send.
  bool is_touched = false;
  /// Its socket was full: a timer tries again, or the listener tells.
  bool is_blocked = false;
  /// It is in the list of those that did not take their data at some time.
  bool is_slow = false;
  Reactor::Time last_sent{};
  /// Since when it has taken no data although some waits for it; zero when none does.
  Reactor::Time waits_since{};
  /// Whose bytes of data wait in the outbox.
  Debts debts;
  /// Bytes of data-lane messages that came from it and have left this broker, and as much of it as
  /// it was told (FrameHeader.credit).
  std::uint64_t taken = 0;
  std::uint64_t announced = 0;
  /// Bytes of data-lane messages handed to its socket, and how many of them it says it has taken.
  std::uint64_t sent = 0;
  std::uint64_t credit = 0;
  /// Bytes of control handed to its socket since it was last heard.
  std::uint64_t control_unheard = 0;
};

}  // namespace meshbus
