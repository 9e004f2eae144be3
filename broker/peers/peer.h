#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "broker/peers/connection_id.h"
#include "broker/peers/peer_outbox.h"
#include "common/loop/reactor.h"
#include "wire/codes_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// What a peer has proven about itself (broker/access/admission.h).
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
  /// The newest version of the protocol that both sides speak.
  std::uint16_t version = 0;
  /// As in its Hello.
  std::uint64_t capabilities = 0;
  /// The holder of its key ("operator alice"), and the key as Z85; empty without keys.
  std::string user = {};
  std::string key_text = {};
  /// The highest role that the broker of a link vouches for (KeyGrant::ceiling).
  wire::Role ceiling = wire::Role::operate;
  /// Where it connected from, for people: "uid 1000, pid 4711" or "10.0.0.2".
  std::string address = {};
  /// What limits are counted for: role and key, or the user of a local process, or, without keys,
  /// the address. All connections of one principal share its limits.
  std::string principal = {};

  bool is_link() const noexcept { return kind == wire::PeerKind::link; }
  /// Whether a token proved it, so that a new incarnation may take the place of an old one.
  bool has_token() const noexcept {
    return kind == wire::PeerKind::agent || kind == wire::PeerKind::proc;
  }
};

/// What a peer says that it has sent by direct paths (DirectTraffic in bus.fbs).
struct DirectCount {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// Flow control of one connection, in bytes (FrameHeader.credit).
struct CreditWindow {
  /// Data that came from the peer and has left this broker, and as much of it as the peer was told.
  std::uint64_t taken = 0;
  std::uint64_t announced = 0;
  /// Data handed to the peer's socket, and how much of it the peer says it has taken.
  std::uint64_t sent = 0;
  std::uint64_t credit = 0;
  /// Control handed to the peer's socket since a frame last came from it.
  std::uint64_t control_unheard = 0;

  /// The peer is to be told of its credit.
  bool is_announcement_due() const noexcept { return taken - announced >= kCreditStep; }
};

/// How sending to a peer stands. PeerQueues alone writes it.
struct SendState {
  /// It is in the list of peers that have something to send.
  bool is_touched = false;
  /// Its socket was full: a timer tries again, or the listener tells when there is room.
  bool is_blocked = false;
  /// It is in the list of peers that may have stalled.
  bool is_watched = false;
  /// A send found that its connection has ended.
  bool is_lost = false;
  Reactor::Time last_sent{};
  /// Since when it has taken no data although some waits for it; zero when none does.
  Reactor::Time stalled_since{};
};

/// A registered connection and what waits to leave for it.
struct Peer {
  Peer(Identity proven, ConnectionId id, int fd, Outbox::Limits limits)
      : identity(std::move(proven)),
        connection(id),
        descriptor(fd),
        outbox(limits, identity.is_link()) {}

  Identity identity;
  ConnectionId connection;
  /// The broker's end of the connection, to match the monitor's events and to hang up; only a
  /// number, it belongs to the listener.
  int descriptor;
  PeerOutbox outbox;
  CreditWindow window = {};
  SendState sending = {};
  /// The connection is over, or another one took its place: nothing is sent any more, but what it
  /// had sent before is still taken.
  bool is_ended = false;
  /// The refusal of a message of this peer has been logged (once per peer).
  bool is_refusal_logged = false;
  /// The refusal of an introduction has been logged (once per peer).
  bool is_introduction_logged = false;
  DirectCount direct;
};

}  // namespace meshbus
