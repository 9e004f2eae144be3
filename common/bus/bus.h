#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/bus/fates.h"
#include "common/bus/pending_requests.h"
#include "common/bus/session.h"
#include "common/wire/dispatcher.h"
#include "meshbus/address.h"
#include "meshbus/shared_body.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

class CastBody;
struct CastPlan;

/// Where to send: a proc, by its keys. `host_text` is there when it may have to be introduced to
/// the broker; answers go back without.
struct Destination {
  std::uint64_t proc = 0;
  std::uint64_t host = 0;
  std::string host_text;

  static Destination to(const ProcId& proc);
  /// The agent of a host.
  static Destination to_agent(const HostAddr& host);
  /// The broker of another host; without a host, our own.
  static Destination to_broker() { return {}; }
  static Destination to_broker(const HostAddr& host);
  /// Back to whoever sent this.
  static Destination back(const wire::Envelope& envelope) {
    return {envelope.source_proc(), envelope.source_host(), {}};
  }
};

/// What every role but the broker has: its view of the bus. Requests with their answers, calls,
/// handlers, and one Session below.
///
/// Lives on the reactor's thread, but for pack() and load(), which any thread may call. Control
/// messages that are requests are checked against the table given at the start and refused in words
/// when they do not fit; answers find their request by id.
class Bus {
 public:
  /// Messages on their way to all receivers together, 16 bytes each, before send() and cast() say
  /// queue_full.
  static constexpr std::size_t kMostOutstanding = 1024 * 1024;
  using Answer = PendingRequests::Answer;
  using CallAnswer = PendingRequests::CallAnswer;
  /// The answer of one rank, by its ordinal in the view.
  using CastAnswer = std::function<void(std::uint64_t ordinal, Result<std::string>)>;
  /// A message or call for a port.
  struct Delivery {
    const wire::Envelope& envelope;
    const wire::CallHeader& header;
    Bytes body;
    const CastBody* cast;
    const std::shared_ptr<const void>& frame;
  };
  struct Events {
    /// Registered (again, after a loss): `welcome` says where and as what.
    std::function<void(const wire::Welcome&)> on_up;
    /// The session is over, a new one is being tried; open requests and calls have failed with
    /// fate_unknown.
    std::function<void(const std::string& reason)> on_down;
    /// An attempt to connect has failed; another one follows.
    std::function<void(const std::string& reason)> on_trouble;
    /// The broker will not have us; final.
    std::function<void(const Error&)> on_refused;
    /// A message or call for a port: answer calls with answer_call() or fail_call(), now or later.
    std::function<void(const wire::Envelope&, const wire::CallHeader&, Bytes)> on_data;
    /// The same for one that was cast to a view of a mesh; without it these come to on_data.
    std::function<void(const wire::Envelope&, const wire::CallHeader&, Bytes, const CastBody&)>
        on_cast;
    /// The same for both, in their place: the body may be kept, as long as `frame` is. `cast`: null
    /// when it is none.
    std::function<void(const Delivery&)> on_delivery;
    /// A message that was not a request or call of ours came back, or, with fate_unknown, may have
    /// been taken or not: whoever knew is dead. Once for each message.
    std::function<void(const wire::Envelope&, const Error&)> on_undeliverable;
    /// If set, what on_data is given counts as taken only when taken() is called for it, in the
    /// order in which it came, unless it is given back. Runs its argument, on the reactor's thread,
    /// when that is so of all that on_data was given until now.
    std::function<void(std::function<void()>)> when_taken;
  };
  /// Messages without an answer: what became of those that were sent, and how many were taken.
  struct Traffic {
    SentFates::Totals sent;
    std::uint64_t outstanding = 0;  ///< Sent and not heard of.
    std::uint64_t no_return = 0;    ///< Sent by who does not want to hear of them.
    std::uint64_t taken = 0;        ///< Of those that others sent.
  };

  /// `hello.peer`: a ProcId, or the name alone, which the broker completes with its host.
  Bus(Reactor& reactor, zmq::context_t& context, Session::Options options, Dispatcher handlers,
      Events events);
  ~Bus();
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  bool is_up() const noexcept { return session_->is_up(); }
  /// See Session.
  std::chrono::system_clock::time_point connected_at() const noexcept {
    return session_->connected_at();
  }
  /// Who we are and where; known after the first on_up.
  const std::optional<ProcId>& self() const noexcept { return self_; }
  Reactor& reactor() noexcept { return reactor_; }

  /// Asks, and hands the answer, or the Error that stands for it (the Refusal's code,
  /// undeliverable, timeout, fate_unknown, queue_full), to `answer`, exactly once, never from
  /// inside this call.
  void request(const Destination& to, const ControlBody& body, std::chrono::milliseconds deadline,
               Answer answer);
  /// A control message that has no answer. False when the queue is full.
  bool tell(const Destination& to, const ControlBody& body, wire::Lane lane = wire::Lane::control) {
    return send_control(to, encode_control({}, body), lane);
  }
  /// Answers a request, once. One that is too large for a message becomes a Refusal that says so.
  void answer(const Request& request, const ControlBody& body) {
    if (request.head.id != 0)
      send_answer(request, encode_control({.id = request.head.id, .is_answer = true}, body));
  }
  void refuse(const Request& request, const Error& error);

  /// Whoever was asked or called has ended: what is open fails with fate_unknown.
  void give_up(const Destination& to, const std::string& why);

  /// Bytes for a port of a proc, with an answer: call_error when the handler there failed;
  /// otherwise errors as request(). The number is for give_up_call().
  std::uint64_t call(const Destination& to, std::uint32_t port, Bytes body,
                     std::chrono::milliseconds deadline, CallAnswer answer);
  /// The caller gives up: what is open of that call() or cast_call() fails with that error, now.
  void give_up_call(std::uint64_t id, const Error& why);
  void answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body);
  void fail_call(const wire::Envelope& call, const wire::CallHeader& header, const Error& error);
  /// Bytes for a port, without an answer; what comes back is told by on_undeliverable, unless
  /// `no_return`. Errors: too_large, queue_full.
  Result<void> send(const Destination& to, std::uint32_t port, Bytes body, bool no_return = false);
  /// The same without a copy of a body above kInlineLimit.
  Result<void> send(const Destination& to, std::uint32_t port, const SharedBody& body,
                    bool no_return = false);
  /// What waits to leave or to be taken.
  struct Load {
    std::size_t bytes = 0;        ///< Given to us and not yet to the socket.
    std::size_t outstanding = 0;  ///< Messages that are not known to be taken.
    std::size_t queued = 0;       ///< Messages given to us and not yet to the socket.
  };
  /// What may wait to leave.
  struct Most {
    std::size_t bytes;
    std::size_t queued = SIZE_MAX;
  };
  /// What became of a message that was to be packed.
  struct Packed {
    enum class Outcome : std::uint8_t {
      packed,
      /// It does not fit now; see Load.
      no_room,
      /// It has to be sent by send(): its host is not known to our broker, or a session begins.
      not_now,
    } outcome;
    /// Nothing was waiting before it, so nobody is about to flush.
    bool is_first = false;
    /// A pack is full with it.
    bool is_full = false;
  };
  /// send() on any thread, beside the reactor's (decision 30). The message leaves with the next
  /// flush(), which the caller has to see to. Only when no more than `most` wait then (Load::bytes
  /// and Load::queued).
  /// `part`: what the body is, moved from; null: it is copied.
  Packed pack(std::uint64_t proc, std::uint64_t host, std::uint32_t port, Bytes body,
              zmq::message_t* part, const Most& most);
  /// Any thread.
  Load load() const;
  /// See Session; any thread.
  Reactor::Time sent_at() const noexcept { return session_->sent_at(); }
  /// Sends what waits, as far as it goes now, as a turn does at its end.
  void flush();
  /// A message part that has a share of that body.
  static zmq::message_t share(const SharedBody& body);

  /// The same message to every rank of a view, in order with what else is sent to each of them;
  /// each one is delivered, returned or of unknown fate by itself. With no rank it succeeds.
  /// Errors: too_large, queue_full, version_mismatch (an older broker); nothing was sent then.
  Result<void> cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return = false);
  /// Calls every rank of a view: `answer` is called once for each, never from inside this call.
  /// Errors as call(), by rank. The number is for give_up_call().
  std::uint64_t cast_call(std::shared_ptr<const CastPlan> to, std::uint32_t port, Bytes body,
                          std::chrono::milliseconds deadline, CastAnswer answer);
  /// A message that was handed to on_data and that nobody takes: its sender hears why. Not to be
  /// counted as taken.
  void give_back(const wire::Envelope& message, const Error& error);
  /// See Events::when_taken.
  void taken(const wire::Envelope& envelope);
  Traffic traffic() const;
  /// Requests of senders whose role was too low.
  std::uint64_t refused() const noexcept { return refused_; }

  /// See Session.
  void flush_early() { session_->flush_early(); }
  void hold_data(bool held) { session_->hold_data(held); }
  std::size_t inbox_bytes() const noexcept { return session_->inbox_bytes(); }
  /// Bytes that were given to us and not yet to the socket.
  std::size_t queued_bytes() const { return load().bytes; }

  /// Leaves in order. Open requests fail with fate_unknown. `linger`: see Session::close.
  void close(const std::string& reason,
             std::chrono::milliseconds linger = std::chrono::milliseconds(200));

 private:
  /// A call to every rank of a view, and who has not answered yet.
  struct CastCall {
    std::shared_ptr<const CastPlan> to;
    CastAnswer answer;
    std::vector<bool> is_open = {};
    std::uint64_t left = 0;
    /// Of each piece; 0 = it was not sent.
    std::vector<std::uint64_t> sequences = {};
    Reactor::TimerId timer = 0;
  };

  void send_answer(const Request& request, const std::string& bytes);
  bool send_control(const Destination& to, const std::string& bytes, wire::Lane lane);
  Result<void> send_body(const Destination& to, std::uint32_t port, Bytes body, bool no_return,
                         zmq::message_t* apart);
  /// Numbers and queues a message; the number, or 0 when the queue is full. `apart`: the part that
  /// the body is, moved from.
  std::uint64_t post(const Destination& to, std::uint32_t port, wire::Kind kind, wire::Lane lane,
                     Bytes body, std::uint32_t flags = 0, zmq::message_t* apart = nullptr);
  /// The same for one piece of a cast; `head` is what comes before the body.
  std::uint64_t post_cast(const CastPlan& to, std::size_t piece, std::uint32_t port,
                          wire::Kind kind, Bytes head, Bytes body, std::uint32_t flags);
  /// Whether our broker does that, and all of it fits into messages and into what may be
  /// outstanding.
  Result<void> check_cast(const CastPlan& to, std::size_t bytes, bool is_counted) const;
  void on_cast_answer(std::uint64_t id, const wire::Envelope& from, Result<std::string> answer);
  /// One of these ranks, or all on that host, or all of that message: those that are open fail.
  void fail_cast(const wire::Envelope& envelope, const Error& error);
  void fail_cast_call(std::uint64_t id, const Error& error);
  void finish_cast(std::uint64_t id, std::uint64_t ordinal, Result<std::string> answer);
  /// post() with the session's lock held, to a host that is known.
  std::uint64_t post_locked(const wire::Envelope& envelope, Bytes body, zmq::message_t* part);
  /// Remembers a message that was pushed; with the session's lock held.
  void remember(const SentFates::Receiver& to, wire::Envelope envelope, std::size_t length);
  void watch_fates();
  void on_message(const FrameReader::Message& message, const std::shared_ptr<const void>& frame);
  void set_packable(bool is_packable);
  void forget_introduced(std::uint64_t host);
  void introduce(const Destination& to);
  void say_introduce(std::uint64_t key, const std::string& host);
  void on_welcome(const wire::Welcome& welcome);
  SentFates::Receiver receiver_of(std::uint64_t proc, std::uint64_t host) const noexcept {
    return {proc, host == own_host_ ? 0 : host};
  }
  void on_taken(const SentFates::Receiver& from, const wire::Taken& taken);
  void on_ask_taken(const wire::Envelope& from, std::uint64_t id);
  void say_taken();
  void ask_taken(const SentFates::Receiver& receiver);
  void on_asked(const SentFates::Receiver& receiver, const Result<ControlMessage>& answer);
  void tell_unknown(const wire::Envelope& envelope);
  /// SentFates::remove().
  bool forget_fate(const SentFates::Receiver& to, const wire::Envelope& envelope,
                   bool is_unknown = false);
  /// SentFates::settle(), and what is of unknown fate then is told.
  void settle(const SentFates::Receiver& receiver, std::uint64_t end);
  /// Of a message that no longer fits in the queue.
  void fail_queued(const wire::Envelope& envelope);
  void on_lost(const std::string& reason);
  void on_control(const FrameReader::Message& message);
  void log_refusal(const wire::Envelope& from, const Error& error);
  void on_call_answer(const FrameReader::Message& message);
  void on_undeliverable(const wire::Envelope& from, const wire::Undeliverable& undeliverable);
  /// Whether that request or call is open and was sent to `from`.
  bool is_open(std::uint64_t id, const wire::Envelope& from) const;
  bool is_of_host(const wire::Envelope& from, std::uint64_t host) const noexcept;
  void fail_all(const Error& error);

  Reactor& reactor_;
  Dispatcher handlers_;
  Events events_;
  std::optional<ProcId> self_;
  /// When the peer gave only its name.
  std::optional<ProcName> own_name_;
  std::uint64_t own_host_ = 0;  // written with the session's lock held
  std::uint64_t incarnation_ = 0;
  /// Above those of whoever had our name before us: an answer to him must not be taken for one to
  /// us. By the clock, 256 ns a number: that is below 2^53, which JSON keeps exactly, until 2043.
  std::uint64_t next_sequence_ =  // guarded by the session's lock
      static_cast<std::uint64_t>(
          std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count()) >>
      8;
  std::uint64_t next_id_ = next_sequence_;
  PendingRequests pending_{reactor_};
  std::map<std::uint64_t, CastCall> casts_;
  std::unordered_map<std::uint64_t, std::uint64_t> cast_of_sequence_;
  /// Our broker is of a release that knows no casts.
  bool is_castless_ = false;
  SentFates fates_;  // guarded by the session's lock
  TakenCounts taken_;
  std::uint64_t no_return_ = 0;  // guarded by the session's lock
  /// Whether pack() may be used: not while a new session puts what waits in order.
  bool is_packable_ = false;  // guarded by the session's lock
  std::uint64_t turn_end_ = 0;
  /// Who was told that its role is too low.
  std::unordered_set<std::uint64_t> refused_senders_;
  std::uint64_t refused_ = 0;
  Reactor::TimerId fates_timer_ = 0;
  Reactor::TimerId taken_timer_ = 0;
  /// Other hosts, by key, that this session's broker was told of; a new session is told of them
  /// again, before what is queued leaves.
  std::unordered_map<std::uint64_t, std::string>
      introduced_;  // written with the session's lock held
  std::unique_ptr<Session> session_;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
