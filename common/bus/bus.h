#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/message_part.h"
#include "common/bus/arrival.h"
#include "common/bus/body_intake.h"
#include "common/bus/body_sender.h"
#include "common/bus/cast_bodies.h"
#include "common/bus/cast_chunks.h"
#include "common/bus/cast_sender.h"
#include "common/bus/delivery_tracker.h"
#include "common/bus/destination.h"
#include "common/bus/direct_paths.h"
#include "common/bus/held_body.h"
#include "common/bus/introductions.h"
#include "common/bus/postbox.h"
#include "common/bus/refusal_log.h"
#include "common/bus/requests.h"
#include "common/bus/responder.h"
#include "common/bus/session.h"
#include "common/wire/dispatcher.h"
#include "meshbus/address.h"
#include "meshbus/shared_body.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

class CastBody;
struct CastPlan;

/// The bus as every role but the broker sees it: requests, calls, messages and casts with what
/// becomes of them, and the handlers for those of others; one Session below.
///
/// Lives on the reactor's thread, but for pack() and load(), which any thread may call. Requests of
/// others are checked against the table given at the start, and refused with a reason when they do
/// not fit; answers find their request by id.
/// Large because: it is the facade of its parts, and most functions only hand on.
class Bus {
 public:
  static constexpr std::size_t kMostOutstanding = Postbox::kMostOutstanding;
  using Answer = Requests::Answer;
  using CallAnswer = Requests::CallAnswer;
  using CastAnswer = CastCalls::Answer;
  using Load = Postbox::Load;
  using Most = Postbox::Most;
  using Packed = Postbox::Packed;
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
    /// The broker refuses this peer; final.
    std::function<void(const Error&)> on_refused;
    /// A message or call for a port: answer calls with answer_call() or fail_call(), now or later.
    std::function<void(const wire::Envelope&, const wire::CallHeader&, Bytes)> on_data;
    /// Called instead, if set: the body may be kept, as long as `frame` is. `cast`: null when it
    /// was not cast to a view of a mesh.
    std::function<void(const Delivery&)> on_delivery;
    /// A message that was not a request or call of ours came back, or, with fate_unknown, may have
    /// been taken or not: every process that knew it is dead. Once for each message.
    std::function<void(const wire::Envelope&, const Error&)> on_undeliverable;
    /// If set, a message counts as taken only when taken() is called for it, in the order in which
    /// it came, unless it is given back. Runs its argument, on the reactor's thread, when that is
    /// so of all messages that came until now.
    std::function<void(std::function<void()>)> when_taken;
    /// Bytes that were handed out and wait for the program; if not set, there are none.
    std::function<std::size_t()> backlog;
  };
  /// Messages without an answer: what became of those that were sent, and how many were taken.
  struct Traffic : Postbox::Counts {
    std::uint64_t taken = 0;  ///< Messages of others.
  };

  /// `hello.peer`: a ProcId, or the name alone, which the broker completes with its host.
  Bus(Reactor& reactor, Session::Options options, Dispatcher handlers, Events events);
  ~Bus();
  Bus(const Bus&) = delete;
  Bus& operator=(const Bus&) = delete;

  bool is_up() const noexcept { return session_.is_up(); }
  /// Whether the last session ended because the broker said that it ends, as its host does.
  bool has_broker_left() const noexcept { return session_.has_said_bye(); }
  /// See Session.
  std::chrono::system_clock::time_point connected_at() const noexcept {
    return session_.connected_at();
  }
  /// Larger bodies are neither sent nor taken (setting message.limit). Reactor's thread.
  void set_body_limit(std::uint64_t bytes) noexcept {
    postbox_.set_body_limit(bytes);
    intake_.set_limit(bytes);
  }
  std::size_t body_limit() const noexcept { return postbox_.body_limit(); }
  /// Whether a body of that size may be sent. Errors: too_large, with both sizes.
  Result<void> check_size(std::size_t bytes) const;
  /// Our own name and host; known after the first on_up.
  const std::optional<ProcId>& self() const noexcept { return self_; }
  Reactor& reactor() noexcept { return reactor_; }

  /// Asks, and hands the answer, or the Error that stands for it (the Refusal's code,
  /// undeliverable, timeout, fate_unknown, queue_full), to `answer`, exactly once, never from
  /// inside this call.
  void request(const Destination& to, const ControlBody& body, std::chrono::milliseconds deadline,
               Answer answer);
  /// A control message that has no answer. False when the queue is full.
  bool tell(const Destination& to, const ControlBody& body, wire::Lane lane = wire::Lane::control);
  /// Answers a request, once. One that is too large for a message becomes a Refusal that says so.
  void answer(const Request& request, const ControlBody& body) { responder_.answer(request, body); }
  void refuse(const Request& request, const Error& error) { responder_.refuse(request, error); }

  /// The peer has ended: requests and calls to it that are open fail with fate_unknown.
  void give_up(const Destination& to, const std::string& why);

  /// Bytes for a port of a proc, with an answer: call_error when the handler there failed;
  /// otherwise errors as request(). The number is for give_up_call().
  std::uint64_t call(const Destination& to, std::uint32_t port, Bytes body,
                     std::chrono::milliseconds deadline, CallAnswer answer);
  /// The same without a copy of a body above kCallLimit.
  std::uint64_t call(const Destination& to, std::uint32_t port, const HeldBody& body,
                     std::chrono::milliseconds deadline, CallAnswer answer);
  /// The caller gives up: what is open of that call() or cast_call() fails with that error, now.
  void give_up_call(std::uint64_t id, const Error& why);
  /// A large body is sent by itself, while the caller waits for it at most.
  void answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body);
  /// The same without a copy of a large body.
  void answer_call(const wire::Envelope& call, const wire::CallHeader& header,
                   const SharedBody& body);
  void fail_call(const wire::Envelope& call, const wire::CallHeader& header, const Error& error) {
    responder_.fail_call(call, header, error);
  }
  /// Bytes for a port, without an answer; on_undeliverable reports what comes back, unless
  /// `no_return`. Errors: too_large (above kBodyLimit: see send_large()), queue_full.
  Result<void> send(const Destination& to, std::uint32_t port, Bytes body, bool no_return = false);
  /// The same without a copy of a body above kInlineLimit.
  Result<void> send(const Destination& to, std::uint32_t port, const SharedBody& body,
                    bool no_return = false);
  /// Sends by a direct path, at once, without a copy of the body. Nothing has happened when it has
  /// neither left nor begun to.
  DirectPaths::SentNow send_direct(const Destination& to, std::uint32_t port, Bytes body);
  /// As DirectPaths: goes on with one that has begun to leave, or copies the rest of it.
  DirectPaths::SentNow go_on_direct(std::uint64_t proc, std::uint64_t begun);
  void keep_direct(std::uint64_t proc, std::uint64_t begun) { direct_.keep(proc, begun); }
  /// send() of a body above kBodyLimit: it goes before its message, as shared memory or in chunks
  /// (BodySender), as long as somebody waits for `arrival`. Messages that are sent meanwhile arrive
  /// before it.
  void send_large(const Destination& to, std::uint32_t port, SharedBody body, Arrival& arrival) {
    send_large(to, port, std::move(body), arrival.is_wanted(), arrival.sent());
  }
  /// The same without a thread that waits.
  void send_large(const Destination& to, std::uint32_t port, SharedBody body,
                  Arrival::IsWanted is_wanted, Arrival::Sent sent);
  /// From now on other threads may use pack() and load(). Reactor's thread.
  void share() noexcept { session_.share(); }
  /// send() on any thread, beside the reactor's (decision 30); `not_now` before share(). The
  /// message leaves with the next flush(), which the caller has to see to. Only when no more than
  /// `most` wait then (Load::bytes and Load::queued). `part`: what the body is, moved from; null:
  /// it is copied.
  Packed pack(std::uint64_t proc, std::uint64_t host, std::uint32_t port, Bytes body,
              MessagePart* part, const Most& most) {
    return postbox_.pack(proc, host, port, body, part, most);
  }
  /// Any thread.
  Load load() const { return postbox_.load(); }
  /// See Session; any thread.
  Reactor::Time sent_at() const noexcept { return session_.sent_at(); }
  /// Sends what waits, as far as it goes now, as a turn does at its end.
  void flush();
  /// A message part that has a share of that body.
  static MessagePart share(const SharedBody& body);

  /// The same message to every rank of a view, in order with what else is sent to each of them;
  /// each one is delivered, returned or of unknown fate by itself. With no rank it succeeds.
  /// Errors: too_large, queue_full, version_mismatch (an older broker); nothing was sent then.
  Result<void> cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return = false);
  /// cast() of a body above CastPlan::body_limit, as send_large(): ranks that could not get the
  /// body are told by on_undeliverable. The wait ends with an error only when no rank has got it.
  void cast_large(const std::shared_ptr<const CastPlan>& to, std::uint32_t port, SharedBody body,
                  Arrival& arrival) {
    cast_large(to, port, std::move(body), arrival.is_wanted(), arrival.sent());
  }
  /// The same without a thread that waits.
  void cast_large(const std::shared_ptr<const CastPlan>& to, std::uint32_t port, SharedBody body,
                  Arrival::IsWanted is_wanted, Arrival::Sent sent, bool no_return = false);
  /// Calls every rank of a view: `answer` is called once for each, never from inside this call.
  /// Errors as call(), by rank. The number is for give_up_call().
  std::uint64_t cast_call(const std::shared_ptr<const CastPlan>& to, std::uint32_t port,
                          const HeldBody& body, std::chrono::milliseconds deadline,
                          CastAnswer answer);
  std::uint64_t cast_call(const std::shared_ptr<const CastPlan>& to, std::uint32_t port, Bytes body,
                          std::chrono::milliseconds deadline, CastAnswer answer) {
    return cast_call(to, port, HeldBody(body), deadline, std::move(answer));
  }
  /// Returns a message that was handed to on_data and that nobody takes to its sender, with the
  /// reason. It must not count as taken.
  void give_back(const wire::Envelope& message, const Error& error) {
    responder_.give_back(message, error);
  }
  /// See Events::when_taken.
  void taken(const wire::Envelope& envelope) { delivery_.take(envelope); }
  Traffic traffic() const;
  /// Requests of senders whose role was too low.
  std::uint64_t refused() const noexcept { return refusals_.unauthorised(); }

  /// See Session.
  void flush_early() { session_.flush_early(); }
  void hold_data(bool held);
  std::size_t inbox_bytes() const noexcept {
    return session_.inbox_bytes() + direct_.inbox_bytes();
  }
  /// Whether procs of our host with which we talk enough may be reached without the broker. Off at
  /// first.
  void set_direct(bool is_wanted) { direct_.set_wanted(is_wanted); }
  const DirectPaths& direct() const noexcept { return direct_; }
  /// Large bodies of ours, answers included, that have not arrived.
  std::size_t large_under_way() const { return bodies_.count() + cast_chunks_.count(); }
  /// Receives the large bodies of others.
  const BodyIntake& intake() const noexcept { return intake_; }
  /// Bytes that were given to us and not yet to the socket.
  std::size_t queued_bytes() const { return load().bytes; }

  /// Leaves in order. Open requests fail with fate_unknown. `linger`: see Session::close.
  void close(const std::string& reason,
             std::chrono::milliseconds linger = std::chrono::milliseconds(200));

 private:
  Session::Events session_events();
  void flush_direct();
  DeliveryTracker::Events delivery_events();
  /// Introduces the host, numbers and queues the message; its number, or 0 when the queue is full.
  std::uint64_t post(const Destination& to, wire::Envelope&& envelope, Bytes body,
                     MessagePart* detached = nullptr);
  Result<void> send_body(const Destination& to, std::uint32_t port, Bytes body, bool no_return,
                         MessagePart* detached);
  void on_welcome(const wire::Welcome& welcome);
  void on_message(const FrameReader::Message& message, const std::shared_ptr<const void>& frame);
  /// The same, whichever way it came.
  void handle(const FrameReader::Message& message, const std::shared_ptr<const void>& frame);
  void on_control(const FrameReader::Message& message);
  /// At least 1 ms.
  std::chrono::milliseconds time_until(Reactor::Time until) const;
  void on_call_answer(const FrameReader::Message& message);
  void on_answered(const wire::Envelope& from, std::uint64_t id, Result<std::string> answer);
  void on_undeliverable(const wire::Envelope& from, const wire::Undeliverable& undeliverable);
  /// A message that waited for the new session no longer fits in the queue.
  void fail_queued(const wire::Envelope& envelope);
  void report(const wire::Envelope& envelope, const Error& error) const {
    if (events_.on_undeliverable) events_.on_undeliverable(envelope, error);
  }
  void fail_all(const Error& error);
  /// Errors: fate_unknown, after close().
  Result<void> check_open() const;
  std::uint64_t call_large(const Destination& to, std::uint32_t port, const SharedBody& body,
                           std::chrono::milliseconds deadline, CallAnswer answer);

  Reactor& reactor_;
  Dispatcher handlers_;
  Events events_;
  std::optional<ProcId> self_;
  /// When the peer gave only its name.
  std::optional<ProcName> own_name_;
  Session session_;
  Postbox postbox_{session_};
  Responder responder_{postbox_};
  Requests requests_;
  Introductions introductions_{requests_, postbox_};
  DeliveryTracker delivery_;
  CastSender casts_;
  BodySender bodies_{reactor_, requests_, postbox_};
  CastChunks cast_chunks_{reactor_, requests_, casts_};
  CastBodies cast_bodies_{requests_, postbox_, bodies_, cast_chunks_};
  BodyIntake intake_{reactor_, responder_, postbox_};
  DirectPaths direct_{reactor_,
                      postbox_,
                      requests_,
                      responder_,
                      intake_.inbox(),
                      [this] { return events_.backlog ? events_.backlog() : 0; },
                      [this](const FrameReader::Message& message,
                             const std::shared_ptr<const void>& frame) { handle(message, frame); }};
  RefusalLog refusals_;
  std::uint64_t turn_end_ = 0;
  /// close() was called: nothing that waited for its body can leave.
  bool is_closed_ = false;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
