#include "common/bus/bus.h"

#include <cstring>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/bus/cast.h"
#include "common/wire/protocol.h"
#include "meshbus/key.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kMostRefusedSenders = 4096;

}  // namespace

zmq::message_t Bus::share(const SharedBody& body) {
  using Owner = std::shared_ptr<const void>;
  auto owner = std::make_unique<Owner>(body.owner());
  // libzmq's messages know no const; nobody writes into the part.
  zmq::message_t part(
      const_cast<char*>(body.bytes().data()), body.bytes().size(),
      [](void*, void* hint) { delete static_cast<Owner*>(hint); }, owner.get());
  owner.release();  // NOLINT(bugprone-unused-return-value): the part has it
  return part;
}

Destination Destination::to(const ProcId& proc) {
  return {proc.key(), proc.host().key(), proc.host().to_string()};
}

Destination Destination::to_agent(const HostAddr& host) {
  return to(host_service(host));
}

Destination Destination::to_broker(const HostAddr& host) {
  return {0, host.key(), host.to_string()};
}

Bus::Bus(Reactor& reactor, zmq::context_t& context, Session::Options options, Dispatcher handlers,
         Events events)
    : reactor_(reactor),
      handlers_(std::move(handlers)),
      events_(std::move(events)),
      incarnation_(options.hello.incarnation),
      fates_(kMostOutstanding) {
  Session::Events session_events;
  session_events.on_welcome = [this](const wire::Welcome& welcome) { on_welcome(welcome); };
  session_events.on_lost = [this](const std::string& reason) { on_lost(reason); };
  session_events.on_refused = [this](const Error& error) {
    fail_all(error);
    if (events_.on_refused) events_.on_refused(error);
  };
  session_events.on_trouble = events_.on_trouble;
  session_events.on_message = [this](const FrameReader::Message& message) {
    on_message(message, nullptr);
  };
  if (events_.on_delivery) {
    session_events.on_data = [this](const FrameReader::Message& message,
                                    const std::shared_ptr<const void>& frame) {
      on_message(message, frame);
    };
  }
  // Its own name is known before the first Welcome when the peer gave it whole.
  if (auto self = ProcId::parse(options.hello.peer)) {
    self_ = *self;
  } else if (auto name = ProcName::parse(options.hello.peer)) {
    own_name_ = *name;
  }
  session_ =
      std::make_unique<Session>(reactor, context, std::move(options), std::move(session_events));
  turn_end_ = reactor_.add_turn_end([this] { watch_fates(); });
}

Bus::~Bus() {
  reactor_.forget_turn_end(turn_end_);
  reactor_.cancel(fates_timer_);
  reactor_.cancel(taken_timer_);
  for (const auto& [id, cast] : casts_) reactor_.cancel(cast.timer);
}

void Bus::set_packable(bool is_packable) {
  const auto lock = session_->lock();
  is_packable_ = is_packable;
}

void Bus::on_welcome(const wire::Welcome& welcome) {
  // What is queued for other hosts must not come before the broker knows them, and nothing new
  // before what is queued.
  auto lock = session_->lock();
  is_packable_ = false;
  Outbox& outbox = session_->outbox();
  Outbox queued = std::exchange(outbox, outbox.emptied());
  const auto owing = fates_.owing();
  if (auto host = HostAddr::parse(welcome.host()->string_view())) {
    own_host_ = host->key();
    if (own_name_) self_ = ProcId(*host, *own_name_);
  }
  lock.unlock();
  is_castless_ = (welcome.capabilities() & kCapabilityCast) == 0;
  for (const auto& [key, host] : introduced_) say_introduce(key, host);
  // What the last session had sent may be lost with it, what is queued is not.
  for (const auto& receiver : owing) ask_taken(receiver);
  std::uint64_t first_queued = 0;
  queued.drain([&](const wire::Envelope& envelope, Bytes body) {
    if (first_queued == 0 && has_fate(envelope)) first_queued = envelope.sequence();
    if (!session_->push(envelope, body)) fail_queued(envelope);
  });
  lock.lock();
  if (first_queued != 0) fates_.lower_asked(first_queued);
  is_packable_ = true;
  lock.unlock();
  taken_.restart();
  if (taken_.has_unsaid()) say_taken();
  if (events_.on_up) events_.on_up(welcome);
}

void Bus::on_lost(const std::string& reason) {
  fail_all(Error(ErrorCode::fate_unknown, reason + "; whether it was done is not known"));
  if (events_.on_down) events_.on_down(reason);
}

void Bus::close(const std::string& reason, std::chrono::milliseconds linger) {
  set_packable(false);
  if (is_up()) say_taken();
  session_->close(reason, linger);
  fail_all(Error(ErrorCode::fate_unknown, "this side left the bus: " + reason));
}

std::uint64_t Bus::post(const Destination& to, std::uint32_t port, wire::Kind kind, wire::Lane lane,
                        Bytes body, std::uint32_t flags, zmq::message_t* apart) {
  introduce(to);
  wire::Envelope envelope;
  envelope.mutate_flags(flags);
  envelope.mutate_destination_proc(to.proc);
  envelope.mutate_destination_host(to.host);
  envelope.mutate_port(port);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(lane);
  const auto lock = session_->lock();
  return post_locked(envelope, body, apart);
}

std::uint64_t Bus::post_locked(const wire::Envelope& unnumbered, Bytes body, zmq::message_t* part) {
  wire::Envelope envelope = unnumbered;
  envelope.mutate_sequence(next_sequence_);
  const std::size_t length = body.size();
  const bool is_counted = has_fate(envelope);
  if ((is_counted && !fates_.has_room()) || !session_->push_locked(envelope, body, part)) return 0;
  if (is_counted) {
    remember(receiver_of(envelope.destination_proc(), envelope.destination_host()), envelope,
             length);
  } else if (envelope.flags() != 0) {
    ++no_return_;
  }
  return next_sequence_++;
}

void Bus::remember(const SentFates::Receiver& to, wire::Envelope envelope, std::size_t length) {
  envelope.mutate_length(static_cast<std::uint32_t>(length));
  fates_.add(to, envelope);
}

Bus::Packed Bus::pack(std::uint64_t proc, std::uint64_t host, std::uint32_t port, Bytes body,
                      zmq::message_t* part, const Most& most) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(proc);
  envelope.mutate_destination_host(host);
  envelope.mutate_port(port);
  envelope.mutate_kind(wire::Kind::message);
  envelope.mutate_lane(wire::Lane::data);
  const auto lock = session_->lock();
  if (!is_packable_ || (host != 0 && host != own_host_ && !introduced_.contains(host)))
    return {Packed::Outcome::not_now};
  const Outbox& outbox = session_->outbox();
  const bool is_first = outbox.empty();
  if (outbox.bytes() + sizeof envelope + body.size() > most.bytes ||
      outbox.count() >= most.queued || post_locked(envelope, body, part) == 0)
    return {Packed::Outcome::no_room};
  return {Packed::Outcome::packed, is_first, outbox.is_full(wire::Lane::data)};
}

Bus::Load Bus::load() const {
  const auto lock = session_->lock();
  return {session_->outbox().bytes(), fates_.count(), session_->outbox().count()};
}

void Bus::flush() {
  session_->flush();
  watch_fates();
}

void Bus::forget_introduced(std::uint64_t host) {
  const auto lock = session_->lock();
  introduced_.erase(host);
}

void Bus::introduce(const Destination& to) {
  if (to.host == 0 || to.host_text.empty() || to.host == own_host_ || introduced_.contains(to.host))
    return;
  {
    const auto lock = session_->lock();
    introduced_.emplace(to.host, to.host_text);
  }
  say_introduce(to.host, to.host_text);
}

void Bus::say_introduce(std::uint64_t key, const std::string& host) {
  wire::IntroduceT introduce;
  introduce.host = host;
  request(Destination::to_broker(), std::move(introduce), std::chrono::seconds(10),
          [this, key](const Result<ControlMessage>& answer) {
            if (answer || answer.error().code() == ErrorCode::fate_unknown)
              return;  // the next session is told again
            forget_introduced(key);
            log::debug("bus: introduce: " + answer.error().to_string());
          });
}

bool Bus::send_control(const Destination& to, const std::string& bytes, wire::Lane lane) {
  if (bytes.size() > kBodyLimit) {
    log::error("bus: a control message of " + std::to_string(bytes.size()) +
               " bytes is above the limit of " + std::to_string(kBodyLimit) + " and is dropped");
    return false;
  }
  return post(to, 0, wire::Kind::control, lane, bytes) != 0;
}

void Bus::request(const Destination& to, const ControlBody& body,
                  std::chrono::milliseconds deadline, Answer answer) {
  const auto id = next_id_++;
  pending_.add(id, {to.proc, to.host}, deadline, std::move(answer));
  const auto bytes =
      encode_control({.id = id, .deadline_ms = static_cast<std::uint32_t>(deadline.count())}, body);
  if (bytes.size() > kBodyLimit) {
    pending_.fail_later(
        id, Error(ErrorCode::too_large, body.name() + " of " + std::to_string(bytes.size()) +
                                            " bytes; the limit is " + std::to_string(kBodyLimit)));
    return;
  }
  const auto sequence = post(to, 0, wire::Kind::control, wire::Lane::control, bytes);
  if (sequence == 0) {
    pending_.fail_later(
        id, Error(ErrorCode::queue_full, body.name() + ": the queue to the broker is full"));
    return;
  }
  pending_.set_sequence(id, sequence);
}

std::uint64_t Bus::call(const Destination& to, std::uint32_t port, Bytes body,
                        std::chrono::milliseconds deadline, CallAnswer answer) {
  const auto id = next_id_++;
  pending_.add_call(id, {to.proc, to.host}, deadline, std::move(answer));
  const wire::CallHeader header(id, static_cast<std::uint32_t>(deadline.count()),
                                wire::ErrorCode::none, 0);
  if (body.size() + sizeof header > kBodyLimit) {
    pending_.fail_later(
        id, Error(ErrorCode::too_large, "a call of " + std::to_string(body.size()) +
                                            " bytes; the limit is " +
                                            std::to_string(kBodyLimit - sizeof header)));
    return id;
  }
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(body);
  const auto sequence = post(to, port, wire::Kind::call, wire::Lane::data, bytes);
  if (sequence == 0) {
    pending_.fail_later(id, Error(ErrorCode::queue_full, "the queue to the broker is full"));
    return id;
  }
  pending_.set_sequence(id, sequence);
  return id;
}

void Bus::give_up_call(std::uint64_t id, const Error& why) {
  if (casts_.contains(id)) {
    fail_cast_call(id, why);
  } else {
    pending_.fail(id, why);
  }
}

void Bus::answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body) {
  if (body.size() + sizeof header > kBodyLimit) {
    fail_call(call, header,
              Error(ErrorCode::too_large, "an answer of " + std::to_string(body.size()) +
                                              " bytes; the limit is " +
                                              std::to_string(kBodyLimit - sizeof header)));
    return;
  }
  const wire::CallHeader reply(header.id(), 0, wire::ErrorCode::none, 0);
  std::string bytes(reinterpret_cast<const char*>(&reply), sizeof reply);
  bytes.append(body);
  if (post(Destination::back(call), 0, wire::Kind::reply, wire::Lane::data, bytes) == 0)
    log::warn("bus: an answer is dropped: the queue to the broker is full");
}

void Bus::fail_call(const wire::Envelope& call, const wire::CallHeader& header,
                    const Error& error) {
  const wire::CallHeader reply(header.id(), 0, to_wire(error.code()), 0);
  std::string bytes(reinterpret_cast<const char*>(&reply), sizeof reply);
  bytes.append(error.detail().substr(0, 64 * 1024));
  if (post(Destination::back(call), 0, wire::Kind::error, wire::Lane::data, bytes) == 0)
    log::warn("bus: an error answer is dropped: the queue to the broker is full");
}

Result<void> Bus::send(const Destination& to, std::uint32_t port, Bytes body, bool no_return) {
  return send_body(to, port, body, no_return, nullptr);
}

Result<void> Bus::send(const Destination& to, std::uint32_t port, const SharedBody& body,
                       bool no_return) {
  if (body.bytes().size() <= kInlineLimit) return send(to, port, body.bytes(), no_return);
  zmq::message_t part = share(body);
  return send_body(to, port, body.bytes(), no_return, &part);
}

Result<void> Bus::send_body(const Destination& to, std::uint32_t port, Bytes body, bool no_return,
                            zmq::message_t* apart) {
  if (body.size() > kBodyLimit)
    return fail(ErrorCode::too_large, "a message of " + std::to_string(body.size()) +
                                          " bytes; the limit is " + std::to_string(kBodyLimit));
  if (post(to, port, wire::Kind::message, wire::Lane::data, body, no_return ? kFlagNoReturn : 0,
           apart) == 0)
    return fail(ErrorCode::queue_full, "the queue to the broker is full");
  return {};
}

void Bus::refuse(const Request& request, const Error& error) {
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  answer(request, std::move(refusal));
}

void Bus::send_answer(const Request& request, const std::string& bytes) {
  if (bytes.size() > kBodyLimit) {
    refuse(request,
           Error(ErrorCode::too_large, "the answer has " + std::to_string(bytes.size()) +
                                           " bytes; the limit is " + std::to_string(kBodyLimit) +
                                           "; ask for less at once"));
  } else if (!send_control(Destination::back(request.envelope), bytes, wire::Lane::control)) {
    log::warn("bus: an answer is dropped: the queue to the broker is full");
  }
}

void Bus::on_message(const FrameReader::Message& message,
                     const std::shared_ptr<const void>& frame) {
  if (!session_->is_up())
    return log::debug("bus: what a broker says before its Welcome is dropped");
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
  }
  if (events_.on_data || events_.on_delivery) {
    if (events_.on_delivery) {
      events_.on_delivery({message.envelope, header, body, cast ? &*cast : nullptr, frame});
    } else if (cast && events_.on_cast) {
      events_.on_cast(message.envelope, header, body, *cast);
    } else {
      events_.on_data(message.envelope, header, body);
    }
    if (!events_.when_taken) taken(message.envelope);
  } else if (message.envelope.kind() == wire::Kind::call) {
    fail_call(message.envelope, header,
              Error(ErrorCode::no_such_port,
                    "nothing here listens on port " + std::to_string(message.envelope.port())));
  }
}

void Bus::on_control(const FrameReader::Message& message) {
  auto control = ControlMessage::decode(message.body);
  if (!control) {
    log::warn("bus: " + control.error().to_string());
    return;
  }
  if (control->head().is_answer) {
    const auto id = control->head().id;  // before the move: arguments are evaluated in any order
    if (is_open(id, message.envelope)) pending_.finish(id, std::move(*control));
    return;
  }
  if (const auto* undeliverable = control->body_as<wire::Undeliverable>();
      undeliverable != nullptr &&
      (message.envelope.role() == Role::broker || control->head().id == 0)) {
    on_undeliverable(message.envelope, *undeliverable);
    return;
  }
  if (const auto* taken = control->body_as<wire::Taken>();
      taken != nullptr && control->head().id == 0) {
    on_taken(receiver_of(message.envelope.source_proc(), message.envelope.source_host()), *taken);
    return;
  }
  if (control->body_as<wire::AskTaken>() != nullptr) {
    on_ask_taken(message.envelope, control->head().id);
    return;
  }
  const Request request{message.envelope,
                        {.id = control->head().id, .deadline_ms = control->head().deadline_ms}};
  if (auto done = handlers_.dispatch(request, **control); !done) {
    log_refusal(message.envelope, done.error());
    refuse(request, done.error());
  }
}

void Bus::log_refusal(const wire::Envelope& from, const Error& error) {
  // Once for each sender, as far as they can be kept: whoever may only look may ask as often as he
  // likes.
  if (error.code() == ErrorCode::unauthorised) {
    ++refused_;
    if (refused_senders_.size() >= kMostRefusedSenders) refused_senders_.clear();
    if (!refused_senders_.insert(from.source_proc() ^ from.source_host()).second) return;
  }
  log::warn("bus: refused: " + error.to_string());
}

void Bus::on_call_answer(const FrameReader::Message& message) {
  if (message.body.size() < sizeof(wire::CallHeader)) return;
  wire::CallHeader header;
  std::memcpy(&header, message.body.data(), sizeof header);
  const Bytes body = message.body.substr(sizeof header);
  auto answer = message.envelope.kind() == wire::Kind::error
                    ? Result<std::string>(fail(from_wire(header.code()), std::string(body)))
                    : Result<std::string>(std::string(body));
  if (casts_.contains(header.id())) {
    on_cast_answer(header.id(), message.envelope, std::move(answer));
  } else if (is_open(header.id(), message.envelope)) {
    pending_.finish_call(header.id(), std::move(answer));
  }
}

bool Bus::is_of_host(const wire::Envelope& from, std::uint64_t host) const noexcept {
  return from.source_host() == (host == 0 ? own_host_ : host);
}

bool Bus::is_open(std::uint64_t id, const wire::Envelope& from) const {
  const auto* const asked = pending_.find(id);
  if (asked == nullptr) return false;  // answered already, or too late
  if (from.source_proc() == asked->proc && is_of_host(from, asked->host)) return true;
  log::warn("bus: an answer is dropped: it does not come from the one that was asked");
  return false;
}

void Bus::give_up(const Destination& to, const std::string& why) {
  pending_.fail_to({to.proc, to.host}, Error(ErrorCode::fate_unknown, why));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ordinals;
  for (const auto& [id, cast] : casts_) {
    const auto found = cast.to->ordinal_of_proc.find(to.proc);
    if (found != cast.to->ordinal_of_proc.end()) ordinals.emplace_back(id, found->second);
  }
  for (const auto& [id, ordinal] : ordinals)
    finish_cast(id, ordinal, fail(ErrorCode::fate_unknown, why));
}

void Bus::fail_all(const Error& error) {
  pending_.fail_all(error);
  // Only those that are open now: an answer may ask again.
  std::vector<std::uint64_t> ids;
  for (const auto& [id, cast] : casts_) ids.push_back(id);
  for (const auto id : ids) fail_cast_call(id, error);
}

}  // namespace meshbus
