#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "broker/casts/cast_credits.h"
#include "broker/links/link_table.h"
#include "broker/observe/counters.h"
#include "broker/peers/connection_table.h"
#include "broker/peers/credit_ledger.h"
#include "broker/peers/peer.h"
#include "broker/transport/listener.h"
#include "common/base/message_part.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// A receiver that has accepted nothing for this long no longer holds back its senders' credit.
inline constexpr std::chrono::milliseconds kStallLimit{1000};

/// Sends what waits for the peers, each as fast as it reads, and gives senders credit for what has
/// left. Lives on the reactor's thread.
class PeerQueues {
 public:
  PeerQueues(Reactor& reactor, Listener& listener, ConnectionTable& connections, LinkTable& links,
             Counters& counters);
  ~PeerQueues();
  PeerQueues(const PeerQueues&) = delete;
  PeerQueues& operator=(const PeerQueues&) = delete;

  /// Queues a message for that peer; it leaves at the end of the turn. False when the queue is
  /// full: the charge is taken nevertheless, and released a stall limit later, so that no sender
  /// gets faster by filling queues.
  bool push(Peer& peer, const wire::Envelope& envelope, Bytes body, MessagePart* detached,
            Charge& charge);
  /// Sends a frame of a link at once, by the connection that the other broker opened.
  Listener::Sent send(Peer& peer, Frame& frame);
  /// A frame has come from that peer, with that credit (FrameHeader.credit).
  void on_heard(Peer& peer, std::uint64_t credit);
  /// So many bytes of data of that peer have left this broker.
  void give_credit(Peer& peer, std::size_t bytes);
  /// Its sender gets credit for what was charged.
  void release(const Charge& charge);
  /// The socket of that peer may have room now.
  void unblock(Peer& peer);
  /// The connection of that peer is to end: flush() returns it.
  void lose(Peer& peer);

  /// Whether flush() has something to do.
  bool has_work() const noexcept { return !touched_.empty() || !lost_.empty(); }
  /// Sends what there is to send. The peers whose connections have ended, as sending showed since
  /// the last call: the caller is to end them.
  std::vector<Peer*> flush();
  /// Takes out everything that waits for that peer, in order, and releases it.
  std::vector<wire::Envelope> take_all(Peer& peer);
  /// Hands everything that waits for `from` to `to`, its new connection. The messages for which
  /// that has no room, and those of the broker itself, which were about the old session.
  std::vector<wire::Envelope> move_all(Peer& from, Peer& to);
  /// Whether that peer has taken nothing for a stall limit: casts do not wait for it.
  bool is_stalled(const Peer& peer) const;
  /// Drops every mention of a peer that is about to be destroyed.
  void forget(Peer& peer);
  CastCredits& cast_credits() noexcept { return cast_credits_; }

 private:
  void touch(Peer& peer);
  void flush(Peer& peer);
  /// False when it cannot be sent now.
  bool hand_over(Peer& peer, Frame& frame);
  void release(ConnectionId sender, std::size_t bytes);
  auto releasing() {
    return [this](ConnectionId sender, std::size_t bytes) { release(sender, bytes); };
  }
  /// Data waits for that peer, and it does not take it now.
  void watch_stall(Peer& peer);
  void arm_stall_timer();
  void on_stall_timer();
  void arm_retry();

  Reactor& reactor_;
  Listener& listener_;
  ConnectionTable& connections_;
  LinkTable& links_;
  Counters& counters_;
  /// Peers with something to send.
  std::vector<Peer*> touched_;
  /// Peers whose socket was full and does not say when it is not.
  std::vector<Peer*> blocked_;
  Reactor::TimerId retry_timer_ = 0;
  /// Peers that had data and did not take it, when that was noticed.
  std::vector<Peer*> stalling_;
  Reactor::TimerId stall_timer_ = 0;
  std::vector<Peer*> lost_;
  /// What found a queue full, until the stall timer.
  CreditLedger refused_;
  CastCredits cast_credits_;
};

}  // namespace meshbus
