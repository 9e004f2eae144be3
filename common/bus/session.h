#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/adaptive_mutex.h"
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
  /// What the broker there may have, at least one.
  std::vector<std::string> servers;
  /// Where the own key is, for people.
  std::string path;
};

/// A peer's connection to a broker: keeps one socket = one session, says Hello first on each, and
/// makes a new one after a loss.
///
/// Lives on the reactor's thread. What is pushed while there is no session waits, bounded; what had
/// been handed to a socket that broke may be lost (the events say so; numbering and replay are the
/// links' business).
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
    /// The broker refused the Hello, or the handshake by keys; or we have no keys for it: the
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

  Session(Reactor& reactor, zmq::context_t& context, Options options, Events events);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Queues a message; it leaves at the end of the turn, or once the broker gives credit. False
  /// when the queue is full.
  bool push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart = nullptr);
  /// Guards the outbox: threads beside the reactor's push data into it while they hold this
  /// (decision 30).
  using Lock = std::unique_lock<AdaptiveMutex>;
  Lock lock() const { return Lock(mutex_); }
  /// push() for a caller that holds the lock.
  bool push_locked(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart = nullptr) {
    return outbox_.push(envelope, body, apart);
  }
  /// Sends what is queued, as far as it goes now.
  void flush();
  /// The same, for those who do not wait for the end of the turn; unless the broker has enough to
  /// read from us already: what comes then is not there sooner in frames of its own, and is packed.
  void flush_early();
  /// While held, no data message is handed out, but at the end of a session. They wait here and, as
  /// this side gives no credit then, in the broker and with their senders; control comes as ever.
  void hold_data(bool held);
  /// Data messages that were received and not handed out yet.
  std::size_t inbox_bytes() const noexcept { return inbox_bytes_; }
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
  /// Whether the last session ended because the broker said that it ends.
  bool has_said_bye() const noexcept { return has_said_bye_; }
  /// When the connection of the present session was there; what came before Hello is not in it.
  std::chrono::system_clock::time_point connected_at() const noexcept { return connected_at_; }
  /// What has not left yet. Where other threads push, only with the lock held.
  Outbox& outbox() noexcept { return outbox_; }
  const Outbox& outbox() const noexcept { return outbox_; }
  /// Says Bye, sends what is queued as far as the connection takes it, and closes. No more events.
  /// What it took still leaves, within `linger`: over a unix socket before this returns, over tcp
  /// before the zmq context is destroyed. Without a reason it leaves without a word.
  void close(const std::string& reason,
             std::chrono::milliseconds linger = std::chrono::milliseconds(200));

 private:
  enum class State { idle, connecting, greeting, up, closed };
  /// The frame to send next, or null.
  Frame* next_frame();
  void open();
  void drop(const std::string& reason);
  /// The other side will not have us, or cannot: for good.
  void give_up(const Error& error);
  BrokerSocket::Events socket_events();
  /// The keys of a new connection. Nothing when there are none: the session then gives up.
  std::optional<BrokerSocket::Keys> find_keys();
  void on_handshake_failed(BrokerSocket::Failure failure);
  void on_welcome(const wire::Welcome& welcome);
  void retry_later();
  void close_socket();
  bool on_readable();
  /// The next frame into parts_; false when there is none now.
  bool receive(std::size_t& bytes);
  void on_frame(std::vector<zmq::message_t> parts);
  /// Hands out data for a slice of time, or, when the session ends, all there is. True when some is
  /// left.
  bool hand_out(bool all);
  /// True when the message was about the session itself.
  bool on_session_message(const FrameReader::Message& message);
  void say_hello();
  void on_heartbeat_timer();
  void arm_heartbeat();

  Reactor& reactor_;
  zmq::context_t& context_;
  Options options_;
  Events events_;
  State state_ = State::idle;
  std::unique_ptr<BrokerSocket> socket_;
  mutable AdaptiveMutex mutex_;
  Outbox outbox_;  // guarded by mutex_
  /// The frame that is being received.
  std::vector<zmq::message_t> parts_;
  /// Frames of data whose messages were not handed out yet. What they hold is bounded by what the
  /// broker sends without credit.
  struct Received {
    std::vector<zmq::message_t> parts;
    FrameReader reader;
    std::size_t bytes;
  };
  std::deque<std::shared_ptr<Received>> inbox_;
  std::size_t inbox_bytes_ = 0;
  bool is_held_ = false;
  std::uint64_t turn_end_ = 0;
  Reactor::TimerId retry_timer_ = 0;
  Reactor::TimerId limit_timer_ = 0;
  Reactor::TimerId heartbeat_timer_ = 0;
  std::chrono::milliseconds backoff_{0};
  /// Handshakes with keys that ended without a word, in a row, since when; and why the last attempt
  /// failed.
  std::size_t silent_handshakes_ = 0;
  Reactor::Time silent_since_{};
  std::string trouble_;
  std::string own_key_path_;
  std::string server_key_;
  bool was_ever_up_ = false;
  std::chrono::milliseconds heartbeat_{5000};
  Reactor::Time heartbeat_due_{};
  Reactor::Time last_heard_{};
  bool has_sent_ = false;
  std::atomic<Reactor::Time> sent_at_{Reactor::Time{}};
  /// Whether the broker gives credit; bytes of data sent, and how many of them it has taken.
  bool is_credited_ = false;
  std::uint64_t sent_ = 0;
  std::uint64_t credit_ = 0;
  /// Bytes of data taken, and as much of it as the broker has been told (FrameHeader.credit).
  std::uint64_t taken_ = 0;
  std::uint64_t announced_ = 0;
  Reactor::Time announced_at_{};
  /// Since when there is something that it has not been told; zero when there is nothing, or that
  /// was not noticed yet.
  Reactor::Time untold_since_{};
  /// Bytes of control taken since the broker last heard from us: it sends only so much control to
  /// one who says nothing.
  std::uint64_t control_unsaid_ = 0;
  bool has_said_bye_ = false;
  /// Changes with every connection: a handler that finds another one than it began with must not
  /// touch the connection.
  std::uint64_t generation_ = 0;
  std::chrono::system_clock::time_point connected_at_{};
};

}  // namespace meshbus
