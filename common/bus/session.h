#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/adaptive_mutex.h"
#include "common/base/message_part.h"
#include "common/bus/connect_attempts.h"
#include "common/bus/credit_account.h"
#include "common/bus/data_inbox.h"
#include "common/bus/session_heartbeat.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "common/wire/outbox.h"
#include "common/zmtp/broker_socket.h"
#include "wire/bus_generated.h"
#include "wire/forward.h"

namespace meshbus {

/// What a connection over tcp is encrypted with (CURVE); keys are Z85.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
  /// The keys that the broker there may have, at least one.
  std::vector<std::string> servers;
  /// Where the own key is, for people.
  std::string path;
};

/// A peer's connection to a broker: keeps one socket = one session, says Hello first on each, and
/// makes a new one after a loss.
///
/// Lives on the reactor's thread. Messages that are pushed while there is no session wait, bounded;
/// those that had been handed to a socket that broke may be lost (the events say so; links number
/// and replay them).
/// Large because: the states of a connection meet here; what can be decided without it is in
/// ConnectAttempts, SessionHeartbeat, CreditAccount and DataInbox.
class Session {
 public:
  struct Options {
    /// ZeroMQ spelling: "ipc:///run/…", "tcp://10.0.0.1:7420".
    std::string endpoint;
    /// Version 0: what this build speaks.
    wire::HelloT hello;
    Outbox::Limits limits{.bytes = 16 * 1024 * 1024, .count = 262144};
    /// Frames carry a LinkHeader (brokers only).
    bool link = false;
    std::chrono::milliseconds connect_limit{5000};
    /// Asked for each new connection, which is then encrypted; empty = it is not.
    std::function<Result<CurveKeys>()> keys;
  };
  struct Events {
    /// Registered. Called again for each new session.
    std::function<void(const wire::Welcome&)> on_welcome;
    /// There was a session and it is over; a new one is being tried. `reason` is for people.
    std::function<void(const std::string& reason)> on_lost;
    /// The broker refused the Hello, or the handshake by keys; or we have no keys for it. The
    /// session stays closed.
    std::function<void(const Error&)> on_refused;
    /// An attempt to connect has failed, and why, as far as that is known; another one follows.
    std::function<void(const std::string& reason)> on_trouble;
    /// A message that is not about the session itself. `body` is valid during the call.
    std::function<void(const FrameReader::Message&)> on_message;
    /// For all but links: the same for data. The body lives as long as `frame` is kept.
    std::function<void(const FrameReader::Message&, const std::shared_ptr<const void>& frame)>
        on_data;
    /// For links: a frame came whose LinkHeader is to be read. False when its messages are
    /// there already.
    std::function<bool(const FrameReader&)> on_link_frame;
    /// For links: the value of LinkHeader.ack.
    std::function<std::uint64_t()> link_ack;
  };

  Session(Reactor& reactor, Options options, Events events);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Queues a message; it leaves at the end of the turn, or once the broker gives credit. False
  /// when the queue is full.
  bool push(const wire::Envelope& envelope, Bytes body, MessagePart* detached = nullptr);
  /// From now on threads beside the reactor's may push data (decision 30). Reactor's thread.
  void share() noexcept { is_shared_.store(true, std::memory_order_release); }
  /// Guards the outbox once it is shared. Before that the result owns nothing, and costs nothing.
  using Lock = std::unique_lock<AdaptiveMutex>;
  Lock lock() const { return is_shared_.load(std::memory_order_acquire) ? Lock(mutex_) : Lock(); }
  /// push() for a caller that holds the lock.
  bool push_locked(const wire::Envelope& envelope, Bytes body, MessagePart* detached = nullptr) {
    return outbox_.push(envelope, body, detached);
  }
  /// Sends what is queued, as far as it goes now.
  void flush();
  /// The same before the end of the turn, unless the broker has enough to read from us already:
  /// then frames of their own would not bring messages there sooner, and they are packed.
  void flush_early();
  /// While held, no data message is handed out, except at the end of a session. They wait here and,
  /// as this side gives no credit then, in the broker and with their senders; control still comes.
  void hold_data(bool held);
  /// Data messages that were received and not handed out yet.
  std::size_t inbox_bytes() const noexcept { return inbox_.bytes(); }
  bool is_up() const noexcept { return state_ == State::up; }
  /// For a link that is up: sends a frame at once, under that number (0 = not numbered). False when
  /// the socket does not take it now.
  bool send(Frame& frame, std::uint64_t number);
  /// The key that the broker of the present connection has proven to have; empty without keys.
  const std::string& server_key() const noexcept { return server_key_; }
  /// Ends the present session, if any, as if its connection had broken; another one is tried.
  void reconnect(const std::string& why) { drop(why); }
  /// When something was written to the connection last. Any thread.
  Reactor::Time sent_at() const noexcept { return sent_at_.load(std::memory_order_relaxed); }
  /// Something has left by another way.
  void note_sent() noexcept { sent_at_.store(Reactor::Clock::now(), std::memory_order_relaxed); }
  /// Whether the last session ended because the broker said that it ends.
  bool has_said_bye() const noexcept { return has_said_bye_; }
  /// When the connection of the present session was open, before its Hello.
  std::chrono::system_clock::time_point connected_at() const noexcept { return connected_at_; }
  /// The messages that have not left yet. Where other threads push, only with the lock held.
  Outbox& outbox() noexcept { return outbox_; }
  const Outbox& outbox() const noexcept { return outbox_; }
  /// Says Bye, sends what is queued as far as the connection takes it, and closes. No more events.
  /// What the connection took still leaves, within `linger`, before this returns. Without a reason
  /// it says no Bye.
  void close(const std::string& reason,
             std::chrono::milliseconds linger = std::chrono::milliseconds(200));

 private:
  enum class State { idle, connecting, greeting, up, closed };
  /// The frame to send next, or null.
  Frame* next_frame();
  void open();
  void drop(const std::string& reason);
  /// No further attempt makes sense.
  void give_up(const Error& error);
  /// The same in the next turn.
  void give_up_later(const Error& error);
  BrokerSocket::Events socket_events();
  /// The keys of a new connection. Nothing when there are none: the session then gives up.
  std::optional<BrokerSocket::Keys> find_keys();
  void on_welcome(const wire::Welcome& welcome);
  void close_socket();
  /// What ends the present state at the latest; see timer_.
  void set_timer(Reactor::Duration delay, std::function<void()> handler);
  bool on_readable();
  /// The next frame into parts_; false when there is none now.
  bool receive(std::size_t& bytes);
  void on_frame(std::vector<MessagePart> parts);
  /// Hands out data for a slice of time, or, when the session ends, all there is. True when
  /// something is left.
  bool hand_out(bool all);
  /// True when the message was about the session itself.
  bool on_session_message(const FrameReader::Message& message);
  void say_hello();
  void on_heartbeat_timer();
  void arm_heartbeat();

  Reactor& reactor_;
  Options options_;
  Events events_;
  State state_ = State::idle;
  std::unique_ptr<BrokerSocket> socket_;
  std::atomic<bool> is_shared_{false};
  mutable AdaptiveMutex mutex_;
  Outbox outbox_;  // guarded by mutex_
  std::atomic<Reactor::Time> sent_at_{Reactor::Time{}};
  /// The frame that is being received.
  std::vector<MessagePart> parts_;
  DataInbox inbox_;
  ConnectAttempts attempts_;
  SessionHeartbeat heartbeat_;
  CreditAccount credit_;
  std::uint64_t turn_end_ = 0;
  /// While idle the next attempt, while connecting and greeting the limit, while up the heartbeat.
  Reactor::TimerId timer_ = 0;
  std::string server_key_;
  bool has_said_bye_ = false;
  /// Changes with every connection: a handler that finds another one than it began with must not
  /// touch the connection.
  std::uint64_t generation_ = 0;
  std::chrono::system_clock::time_point connected_at_{};
};

}  // namespace meshbus
