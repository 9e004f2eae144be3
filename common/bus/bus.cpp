#include "common/bus/bus.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/bus/cast.h"
#include "common/bus/sliced_copy.h"
#include "common/wire/protocol.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

using namespace std::chrono_literals;

}  // namespace

MessagePart Bus::share(const SharedBody& body) {
  using Owner = std::shared_ptr<const void>;
  auto owner = std::make_unique<Owner>(body.owner());
  // Parts know no const; nobody writes into this one.
  MessagePart part(
      const_cast<char*>(body.bytes().data()), body.bytes().size(),
      [](void*, void* hint) { delete static_cast<Owner*>(hint); }, owner.get());
  owner.release();  // NOLINT(bugprone-unused-return-value): the part has it
  return part;
}

Bus::Bus(Reactor& reactor, Session::Options options, Dispatcher handlers, Events events)
    : reactor_(reactor),
      handlers_(std::move(handlers)),
      events_(std::move(events)),
      session_(reactor, options, session_events()),
      requests_(reactor, postbox_),
      delivery_(reactor, postbox_, requests_, options.hello.incarnation, delivery_events()),
      casts_(
          reactor, postbox_, introductions_,
          [this](const wire::Envelope& envelope, const Error& error) { report(envelope, error); }) {
  // Our own name is known before the first Welcome when the peer gave it whole.
  if (auto self = ProcId::parse(options.hello.peer)) {
    self_ = *self;
  } else if (auto name = ProcName::parse(options.hello.peer)) {
    own_name_ = *name;
  }
  turn_end_ = reactor_.add_turn_end([this] {
    flush_direct();
    delivery_.watch();
  });
}

Bus::~Bus() {
  reactor_.forget_turn_end(turn_end_);
}

Session::Events Bus::session_events() {
  Session::Events events;
  events.on_welcome = [this](const wire::Welcome& welcome) { on_welcome(welcome); };
  events.on_lost = [this](const std::string& reason) {
    direct_.on_session_lost();
    fail_all(Error(ErrorCode::fate_unknown, reason + "; whether it was done is not known"));
    if (events_.on_down) events_.on_down(reason);
  };
  events.on_refused = [this](const Error& error) {
    fail_all(error);
    if (events_.on_refused) events_.on_refused(error);
  };
  events.on_trouble = events_.on_trouble;
  events.on_message = [this](const FrameReader::Message& message) { on_message(message, nullptr); };
  if (events_.on_delivery) {
    events.on_data = [this](const FrameReader::Message& message,
                            const std::shared_ptr<const void>& frame) {
      on_message(message, frame);
    };
  }
  return events;
}

DeliveryTracker::Events Bus::delivery_events() {
  DeliveryTracker::Events events;
  events.on_unknown = [this](const wire::Envelope& envelope) {
    report(envelope, Error(ErrorCode::fate_unknown,
                           "its receiver has not said that it took it, and never will: a broker, "
                           "or the receiver, has died on the way"));
  };
  events.when_taken = events_.when_taken;
  return events;
}

void Bus::on_welcome(const wire::Welcome& welcome) {
  // What is queued for other hosts must not come before the broker knows them, and nothing new
  // before what is queued.
  const auto host = HostAddr::parse(welcome.host()->string_view());
  if (host && own_name_) self_ = ProcId(*host, *own_name_);
  if (self_)
    postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) { outlets.set_own(self_->key()); });
  Outbox queued = postbox_.take_queued(host ? host->key() : 0);
  casts_.set_supported((welcome.capabilities() & kCapabilityCast) != 0);
  introductions_.repeat();
  delivery_.ask_all();
  for (const auto& envelope : postbox_.put_back(std::move(queued))) fail_queued(envelope);
  delivery_.acknowledge_again();
  if (events_.on_up) events_.on_up(welcome);
}

void Bus::close(const std::string& reason, std::chrono::milliseconds linger) {
  is_closed_ = true;
  postbox_.set_packable(false);
  if (is_up()) delivery_.acknowledge();
  flush_direct();
  direct_.on_session_lost();
  session_.close(reason, linger);
  fail_all(Error(ErrorCode::fate_unknown, "this side left the bus: " + reason));
}

void Bus::hold_data(bool held) {
  session_.hold_data(held);
  direct_.hold_data(held);
}

void Bus::flush_direct() {
  if (direct_.flush()) session_.note_sent();
}

void Bus::flush() {
  flush_direct();
  session_.flush();
  delivery_.watch();
}

std::uint64_t Bus::post(const Destination& to, wire::Envelope&& envelope, Bytes body,
                        MessagePart* detached) {
  introductions_.introduce(to);
  return postbox_.post(std::move(envelope), body, detached);
}

bool Bus::tell(const Destination& to, const ControlBody& body, wire::Lane lane) {
  introductions_.introduce(to);
  return responder_.tell(to, body, lane);
}

void Bus::request(const Destination& to, const ControlBody& body,
                  std::chrono::milliseconds deadline, Answer answer) {
  introductions_.introduce(to);
  requests_.request(to, body, deadline, std::move(answer));
}

std::uint64_t Bus::call(const Destination& to, std::uint32_t port, Bytes body,
                        std::chrono::milliseconds deadline, CallAnswer answer) {
  if (body.size() > kCallLimit && body.size() <= postbox_.body_limit())
    return call_large(to, port, bodies_.hold(body, to.host), deadline, std::move(answer));
  introductions_.introduce(to);
  return requests_.call(to, port, body, deadline, std::move(answer));
}

std::uint64_t Bus::call(const Destination& to, std::uint32_t port, const HeldBody& body,
                        std::chrono::milliseconds deadline, CallAnswer answer) {
  const auto size = body.bytes().size();
  if (body.large() == nullptr || size <= kCallLimit || size > postbox_.body_limit())
    return call(to, port, body.bytes(), deadline, std::move(answer));
  return call_large(to, port, *body.large(), deadline, std::move(answer));
}

std::uint64_t Bus::call_large(const Destination& to, std::uint32_t port, const SharedBody& body,
                              std::chrono::milliseconds deadline, CallAnswer answer) {
  introductions_.introduce(to);
  const auto id = requests_.open_call(to, deadline, std::move(answer));
  bodies_.send(
      to, body, [this, id] { return requests_.find(id) != nullptr; },
      [this, id, to, port, until = reactor_.now() + deadline](const auto& header) {
        if (!header) return requests_.fail(id, header.error());
        if (requests_.find(id) == nullptr) return;
        if (!requests_.post_call(id, to, port, time_until(until),
                                 bytes_of(&*header, sizeof *header), {}, kFlagChunked)) {
          bodies_.forget(header->transfer(), to);
          requests_.fail(id, Requests::queue_is_full());
        }
      });
  return id;
}

void Bus::answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body) {
  if (body.size() <= kCallLimit && body.size() <= postbox_.body_limit())
    return responder_.answer_call(call, header, body);
  answer_call(call, header, bodies_.hold(body, call.source_host()));
}

void Bus::answer_call(const wire::Envelope& call, const wire::CallHeader& header,
                      const SharedBody& body) {
  const std::size_t size = body.bytes().size();
  if (const auto fits = check_size(size); !fits)
    return responder_.fail_call(call, header, fits.error().within("the answer"));
  if (size <= kCallLimit) return responder_.answer_call(call, header, body.bytes());
  const auto until = header.deadline_ms() == 0
                         ? Reactor::Time::max()
                         : reactor_.now() + std::chrono::milliseconds(header.deadline_ms());
  bodies_.send(
      Destination::back(call), body, [this, until] { return reactor_.now() < until; },
      [this, call, header](const auto& chunked) {
        if (!chunked)
          return responder_.fail_call(call, header, chunked.error().within("the answer"));
        responder_.answer_call(call, header, bytes_of(&*chunked, sizeof *chunked), kFlagChunked);
      });
}

Result<void> Bus::check_size(std::size_t bytes) const {
  if (const auto limit = postbox_.body_limit(); bytes > limit)
    return fail(ErrorCode::too_large, "a body of " + std::to_string(bytes) +
                                          " bytes; the limit is " + std::to_string(limit) +
                                          " (setting message.limit)");
  return {};
}

void Bus::send_large(const Destination& to, std::uint32_t port, SharedBody body,
                     Arrival::IsWanted is_wanted, Arrival::Sent sent) {
  if (auto fits = check_size(body.bytes().size()); !fits) return sent(fits);
  introductions_.introduce(to);
  bodies_.send(to, std::move(body), std::move(is_wanted),
               [this, to, port, sent = std::move(sent)](const auto& header) {
                 if (!header) return sent(fail(header.error()));
                 if (auto open = check_open(); !open) return sent(open);
                 const auto number = postbox_.post(
                     to.envelope(port, wire::Kind::message, wire::Lane::data, kFlagChunked),
                     bytes_of(&*header, sizeof *header));
                 if (number != 0) return sent({});
                 bodies_.forget(header->transfer(), to);
                 sent(fail(Requests::queue_is_full()));
               });
}

Result<void> Bus::send(const Destination& to, std::uint32_t port, Bytes body, bool no_return) {
  return send_body(to, port, body, no_return, nullptr);
}

Result<void> Bus::send(const Destination& to, std::uint32_t port, const SharedBody& body,
                       bool no_return) {
  if (body.bytes().size() <= kInlineLimit) return send(to, port, body.bytes(), no_return);
  MessagePart part = share(body);
  return send_body(to, port, body.bytes(), no_return, &part);
}

DirectPaths::SentNow Bus::send_direct(const Destination& to, std::uint32_t port, Bytes body) {
  if (postbox_.receiver_of(to.proc, to.host).host != 0) return {};
  auto done = direct_.send_now(to, port, body);
  // What waited before it may have left, if not this.
  if (!done.has_left && done.full == nullptr) return done;
  session_.note_sent();
  delivery_.watch();
  return done;
}

DirectPaths::SentNow Bus::go_on_direct(std::uint64_t proc, std::uint64_t begun) {
  session_.note_sent();
  return direct_.go_on(proc, begun);
}

Result<void> Bus::send_body(const Destination& to, std::uint32_t port, Bytes body, bool no_return,
                            MessagePart* detached) {
  if (const auto limit = std::min(postbox_.body_limit(), kBodyLimit); body.size() > limit)
    return fail(ErrorCode::too_large, "a message of " + std::to_string(body.size()) +
                                          " bytes; the limit is " + std::to_string(limit));
  if (post(to,
           to.envelope(port, wire::Kind::message, wire::Lane::data, no_return ? kFlagNoReturn : 0),
           body, detached) == 0)
    return fail(ErrorCode::queue_full, "the queue to the broker is full");
  return {};
}

Result<void> Bus::cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return) {
  return casts_.cast(to, port, body, no_return);
}

std::uint64_t Bus::cast_call(const std::shared_ptr<const CastPlan>& to, std::uint32_t port,
                             const HeldBody& body, std::chrono::milliseconds deadline,
                             CastAnswer answer) {
  if (to->targets.empty()) return 0;
  const auto id = requests_.take_id();
  const auto bytes = body.bytes();
  if (bytes.size() <= to->body_limit || bytes.size() > postbox_.body_limit()) {
    casts_.call(id, to, port, bytes, deadline, std::move(answer));
    return id;
  }
  auto& calls = casts_.calls();
  calls.add(id, to, deadline, std::move(answer));
  cast_bodies_.send(
      to, body.large() != nullptr ? *body.large() : SharedBody::copy(bytes),
      {.is_wanted = [&calls, id] { return calls.contains(id); },
       .on_failed = [&calls, id](std::uint64_t ordinal,
                                 const Error& error) { calls.finish(id, ordinal, fail(error)); },
       .on_done =
           [this, &calls, id, to, port, until = reactor_.now() + deadline](const auto& header) {
             if (!header) return calls.fail(id, header.error());
             if (!calls.contains(id)) return;
             if (!casts_.post_call(id, *to, port, time_until(until),
                                   bytes_of(&*header, sizeof *header), {}, kFlagChunked)) {
               cast_chunks_.forget(header->transfer(), to);
               calls.fail(id, Requests::queue_is_full());
             }
           }});
  return id;
}

void Bus::cast_large(const std::shared_ptr<const CastPlan>& to, std::uint32_t port, SharedBody body,
                     Arrival::IsWanted is_wanted, Arrival::Sent sent, bool no_return) {
  auto fits = check_size(body.bytes().size());
  if (!fits || to->targets.empty()) return sent(fits);
  cast_bodies_.send(
      to, std::move(body),
      {.is_wanted = std::move(is_wanted),
       .on_failed = {},
       .on_done = [this, to, port, no_return, sent = std::move(sent)](const auto& header) {
         if (!header) return sent(fail(header.error()));
         // Ranks that have the body wait for a message that does not come any more.
         if (auto open = check_open(); !open) return sent(open);
         const auto cast =
             casts_.cast(*to, port, bytes_of(&*header, sizeof *header), no_return, kFlagChunked);
         if (!cast) cast_chunks_.forget(header->transfer(), to);
         sent(cast);
       }});
}

Result<void> Bus::check_open() const {
  if (is_closed_) return fail(ErrorCode::fate_unknown, "this side left the bus");
  return {};
}

std::chrono::milliseconds Bus::time_until(Reactor::Time until) const {
  return std::max<std::chrono::milliseconds>(
      std::chrono::ceil<std::chrono::milliseconds>(until - reactor_.now()), 1ms);
}

void Bus::give_up_call(std::uint64_t id, const Error& why) {
  if (casts_.calls().contains(id)) {
    casts_.calls().fail(id, why);
  } else {
    requests_.fail(id, why);
  }
}

void Bus::give_up(const Destination& to, const std::string& why) {
  const Error error(ErrorCode::fate_unknown, why);
  if (postbox_.receiver_of(to.proc, to.host).host == 0) direct_.forget(to.proc);
  requests_.fail_to({to.proc, to.host}, error);
  casts_.calls().fail_to(to.proc, error);
}

void Bus::fail_all(const Error& error) {
  bodies_.fail_all(error);
  cast_chunks_.fail_all(error);
  requests_.fail_all(error);
  casts_.calls().fail_all(error);
}

Bus::Traffic Bus::traffic() const {
  return {postbox_.counts(), delivery_.taken()};
}

void Bus::on_message(const FrameReader::Message& message,
                     const std::shared_ptr<const void>& frame) {
  if (!session_.is_up()) return log::debug("bus: what a broker says before its Welcome is dropped");
  if (!direct_.empty() && message.envelope.lane() == wire::Lane::data &&
      postbox_.is_of_host(message.envelope, 0))
    direct_.receive_from(message.envelope.source_proc());
  handle(message, frame);
}

void Bus::handle(const FrameReader::Message& message, const std::shared_ptr<const void>& frame) {
  switch (message.envelope.kind()) {
    case wire::Kind::control: on_control(message); return;
    case wire::Kind::reply:
    case wire::Kind::error: on_call_answer(message); return;
    case wire::Kind::call:
    case wire::Kind::message: break;
  }
  wire::CallHeader header;
  Bytes body = message.body;
  std::optional<CastBody> cast;
  if ((message.envelope.flags() & kFlagCast) != 0) {
    auto opened = CastBody::open(body);
    if (!opened) return log::warn("bus: dropped: " + opened.error().to_string());
    cast = std::move(*opened);
    body = cast->rest();
  }
  if (message.envelope.kind() == wire::Kind::call) {
    if (body.size() < sizeof header) return log::warn("bus: a call without its header is dropped");
    std::memcpy(&header, body.data(), sizeof header);
    body.remove_prefix(sizeof header);
    if ((message.envelope.flags() & kFlagChunk) != 0)
      return intake_.on_chunk(message.envelope, header, body);
    if ((message.envelope.flags() & kFlagShare) != 0)
      return intake_.on_share(message.envelope, header, body);
    if ((message.envelope.flags() & kFlagDirect) != 0)
      return direct_.on_call(message.envelope, header, body);
  }
  const std::shared_ptr<const void>* owner = &frame;
  std::shared_ptr<const void> owner_of_whole;
  if ((message.envelope.flags() & kFlagChunked) != 0) {
    auto whole = intake_.take(message.envelope, body);
    if (!whole) {
      if (message.envelope.kind() == wire::Kind::call)
        return responder_.fail_call(message.envelope, header, whole.error());
      return responder_.give_back(message.envelope, whole.error());
    }
    body = whole->body.bytes();
    owner_of_whole = whole->body.owner();
    owner = &owner_of_whole;
  }
  if (events_.on_delivery) {
    events_.on_delivery({message.envelope, header, body, cast ? &*cast : nullptr, *owner});
  } else if (events_.on_data) {
    events_.on_data(message.envelope, header, body);
  } else {
    if (message.envelope.kind() == wire::Kind::call)
      responder_.fail_call(
          message.envelope, header,
          Error(ErrorCode::no_such_port,
                "nothing here listens on port " + std::to_string(message.envelope.port())));
    return;
  }
  if (!events_.when_taken) delivery_.take(message.envelope);
}

void Bus::on_control(const FrameReader::Message& message) {
  auto control = ControlMessage::decode(message.body);
  if (!control) return log::warn("bus: " + control.error().to_string());
  const auto head = control->head();
  const auto& from = message.envelope;
  if (head.is_answer) return requests_.on_answer(from, std::move(*control));
  if (const auto* undeliverable = control->body_as<wire::Undeliverable>();
      undeliverable != nullptr && (from.role() == Role::broker || head.id == 0))
    return on_undeliverable(from, *undeliverable);
  if (const auto* taken = control->body_as<wire::Taken>(); taken != nullptr && head.id == 0)
    return delivery_.on_acknowledged(from, *taken);
  if (from.role() == Role::broker && from.source_proc() == 0 && postbox_.is_of_host(from, 0)) {
    if (const auto* rule = control->body_as<wire::DirectRule>())
      return direct_.set_allowed(rule->is_allowed());
    if (control->body_as<wire::Gone>() != nullptr && direct_.on_gone(head.id)) return;
  }
  if (control->body_as<wire::AskTaken>() != nullptr) return delivery_.on_question(from, head.id);
  const Request request{from, {.id = head.id, .deadline_ms = head.deadline_ms}};
  if (auto done = handlers_.dispatch(request, **control); !done) {
    refusals_.add(from, done.error());
    responder_.refuse(request, done.error());
  }
}

void Bus::on_call_answer(const FrameReader::Message& message) {
  wire::CallHeader header;
  if (message.body.size() < sizeof header) return;
  std::memcpy(&header, message.body.data(), sizeof header);
  const Bytes body = message.body.substr(sizeof header);
  Result<std::string> answer = std::string();
  if (message.envelope.kind() == wire::Kind::error) {
    answer = fail(from_wire(header.code()), std::string(body));
  } else if ((message.envelope.flags() & kFlagChunked) != 0) {
    auto whole = intake_.take(message.envelope, body);
    if (whole && whole->text == nullptr)
      return copy_in_slices(reactor_, std::move(whole->body),
                            [this, envelope = message.envelope, id = header.id(),
                             alive = std::weak_ptr<void>(alive_)](Result<std::string> copied) {
                              if (!alive.expired()) on_answered(envelope, id, std::move(copied));
                            });
    answer = whole ? Result<std::string>(std::move(*whole->text)) : fail(whole.error());
  } else {
    answer->assign(body);
  }
  on_answered(message.envelope, header.id(), std::move(answer));
}

void Bus::on_answered(const wire::Envelope& from, std::uint64_t id, Result<std::string> answer) {
  if (casts_.calls().contains(id)) {
    casts_.on_answer(id, from, std::move(answer));
  } else {
    requests_.on_call_answer(from, id, std::move(answer));
  }
}

void Bus::on_undeliverable(const wire::Envelope& from, const wire::Undeliverable& undeliverable) {
  const wire::Envelope& envelope = *undeliverable.envelope();
  const auto id = requests_.of_sequence(envelope.sequence());
  const auto* const asked = id ? requests_.find(*id) : nullptr;
  // Only a process that had the message can tell: our own broker, that of the receiver's host, and
  // the receiver.
  const bool is_broker = from.source_proc() == 0 && from.role() == Role::broker;
  const bool is_own = is_broker && postbox_.is_of_host(from, 0);
  const auto host = asked == nullptr ? envelope.destination_host() : asked->host;
  const auto proc = asked == nullptr ? envelope.destination_proc() : asked->proc;
  if (!is_own && !((is_broker || from.source_proc() == proc) && postbox_.is_of_host(from, host))) {
    log::warn("bus: an Undeliverable is dropped: it comes from one that the message did not reach");
    return;
  }
  const Error error(from_wire(undeliverable.code()), text_of(undeliverable.detail()));
  // Our broker has forgotten that host: it is introduced again with the next message.
  if (is_own && error.code() == ErrorCode::no_such_host)
    introductions_.forget(envelope.destination_host());
  if ((envelope.flags() & kFlagCast) != 0) return casts_.on_returned(envelope, error);
  if (id) return requests_.fail(*id, error);
  // A message that is known to be taken, or was reported, is not reported again.
  if (is_tracked(envelope) &&
      !postbox_.forget(envelope.destination_proc(), envelope.destination_host(), envelope,
                       error.code() == ErrorCode::fate_unknown))
    return;
  report(envelope, error);
}

void Bus::fail_queued(const wire::Envelope& envelope) {
  if (envelope.sequence() == 0) return;  // the session's own
  const Error error(ErrorCode::queue_full, "the queue to the broker is full");
  if ((envelope.flags() & kFlagCast) != 0) return casts_.on_returned_later(envelope, error);
  if (is_tracked(envelope))
    postbox_.forget(envelope.destination_proc(), envelope.destination_host(), envelope);
  if (const auto id = requests_.of_sequence(envelope.sequence())) {
    requests_.fail_later(*id, error);
  } else {
    reactor_.post([this, envelope, error, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) report(envelope, error);
    });
  }
}

}  // namespace meshbus
