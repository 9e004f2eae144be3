#include "common/bus/session.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/unix_peer.h"
#include "common/wire/protocol.h"
#include "wire/control_generated.h"

namespace meshbus {
namespace {

constexpr int kDrainFrames = 256;
constexpr std::size_t kDrainBytes = 1024 * 1024;
/// Bytes of data on the way up to which flush_early() flushes: what a broker may have taken without
/// having said so, and some more.
constexpr std::uint64_t kEarly = kCreditStep + 32 * 1024;
/// A broker that sends far beyond its credit is read no further than this.
constexpr std::size_t kInboxLimit = 8 * 1024 * 1024;

wire::Envelope to_broker() {
  wire::Envelope envelope;
  envelope.mutate_kind(wire::Kind::control);
  envelope.mutate_lane(wire::Lane::control);
  return envelope;
}

template <typename NativeBody>
Frame control_frame(NativeBody body, bool link) {
  FrameWriter writer(wire::Lane::control, link);
  writer.add(to_broker(), encode_control({}, std::move(body)));
  return writer.finish();
}

}  // namespace

Session::Session(Reactor& reactor, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      outbox_(options_.limits, options_.link),
      attempts_(options_.endpoint, static_cast<bool>(options_.keys), options_.link),
      credit_(options_.link) {
  if (options_.hello.version == 0) announce(options_.hello, Protocol());
  turn_end_ = reactor_.add_turn_end([this] { flush(); });
  open();
}

Session::~Session() {
  state_ = State::closed;
  close_socket();
  reactor_.forget_turn_end(turn_end_);
}

void Session::set_timer(Reactor::Duration delay, std::function<void()> handler) {
  reactor_.cancel(timer_);
  timer_ = reactor_.after(delay, std::move(handler));
}

bool Session::push(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  const Lock held = lock();
  return outbox_.push(envelope, body, detached);
}

void Session::open() {
  ++generation_;
  state_ = State::connecting;
  credit_.reset();
  std::optional<BrokerSocket::Keys> keys;
  if (options_.keys && !(keys = find_keys())) return;
  // Failures end the attempt in the next turn, not from within the constructor.
  try {
    socket_ = BrokerSocket::open(
        reactor_,
        {.endpoint = options_.endpoint, .keys = keys ? &*keys : nullptr, .is_link = options_.link},
        socket_events());
    set_timer(options_.connect_limit,
              [this] { drop("no answer from " + options_.endpoint + " in time"); });
  } catch (const UntrustedListener& error) {
    const std::string why =
        "the broker at " + options_.endpoint + " is not trusted: " + error.what();
    // A session that was up goes on trying: its own broker may come back.
    if (attempts_.was_ever_up()) {
      set_timer(Reactor::Duration::zero(), [this, why] { drop(why); });
    } else {
      give_up_later(Error(ErrorCode::unauthorised, why));
    }
  } catch (const std::exception& error) {
    set_timer(Reactor::Duration::zero(), [this, why = "cannot connect to " + options_.endpoint +
                                                      ": " + error.what()] { drop(why); });
  }
}

BrokerSocket::Events Session::socket_events() {
  BrokerSocket::Events events;
  events.on_open = [this] {
    if (state_ != State::connecting) return;
    connected_at_ = std::chrono::system_clock::now();
    say_hello();
  };
  events.on_handshake_failed = [this](BrokerSocket::Failure failure) {
    if (const auto error =
            attempts_.on_handshake_failed(failure, state_ == State::connecting, reactor_.now()))
      give_up(*error);
  };
  events.on_readable = [this] { return on_readable(); };
  events.on_writable = [this] { flush(); };
  events.on_ended = [this](const std::string& why) {
    drop("the connection to " + options_.endpoint + " ended" + (why.empty() ? "" : ": " + why));
  };
  return events;
}

std::optional<BrokerSocket::Keys> Session::find_keys() {
  auto keys = options_.keys();
  if (!keys) {
    give_up_later(keys.error());
    return std::nullopt;
  }
  attempts_.set_key_path(keys->path);
  server_key_ = keys->servers[attempts_.next_server(keys->servers.size())];
  return BrokerSocket::Keys{keys->public_key, keys->secret_key, server_key_};
}

void Session::close_socket() {
  reactor_.cancel(std::exchange(timer_, 0));
  if (!socket_) return;
  ++generation_;
  socket_.reset();
  inbox_.clear();
}

void Session::drop(const std::string& reason) {
  if (state_ == State::closed) return;
  // Messages that came before the end are still handed out.
  const auto generation = generation_;
  hand_out(/*all=*/true);
  if (generation != generation_) return;
  const bool was_up = state_ == State::up;
  close_socket();
  state_ = State::idle;
  set_timer(attempts_.next_delay(), [this] { open(); });
  if (!was_up && events_.on_trouble) events_.on_trouble(attempts_.take_trouble(reason));
  if (was_up && events_.on_lost) events_.on_lost(reason);
}

void Session::give_up(const Error& error) {
  state_ = State::closed;
  close_socket();
  if (events_.on_refused) events_.on_refused(error);
}

void Session::give_up_later(const Error& error) {
  state_ = State::idle;
  set_timer(Reactor::Duration::zero(), [this, error] { give_up(error); });
}

void Session::close(const std::string& reason, std::chrono::milliseconds linger) {
  if (state_ == State::closed) return;
  if (socket_) socket_->set_linger(linger);
  if (state_ == State::up && !reason.empty()) {
    wire::ByeT bye;
    bye.reason = cut_text(reason);
    push(to_broker(), encode_control({}, std::move(bye)));
    flush();
  }
  state_ = State::closed;
  close_socket();
}

void Session::say_hello() {
  Frame frame = control_frame(wire::HelloT(options_.hello), options_.link);
  if (send(frame, 0)) {
    state_ = State::greeting;
  } else {
    drop("cannot send to " + options_.endpoint);
  }
}

bool Session::on_readable() {
  const auto generation = generation_;
  std::size_t bytes = 0;
  bool is_drained = false;
  for (int frames = 0; frames < kDrainFrames && bytes < kDrainBytes && inbox_.bytes() < kInboxLimit;
       ++frames) {
    is_drained = !receive(bytes);
    if (is_drained) break;
    // A handler may close this session or open another.
    on_frame(std::exchange(parts_, {}));
    if (generation != generation_) return false;
  }
  if (bytes > 0) heartbeat_.on_heard(reactor_.now());
  const bool is_more = hand_out(/*all=*/false);
  if (generation != generation_) return false;
  // Held data that fills the inbox: hold_data(false) calls again, nothing else can help.
  if (inbox_.is_held() && inbox_.bytes() >= kInboxLimit) return false;
  return is_more || !is_drained;
}

bool Session::receive(std::size_t& bytes) {
  parts_.clear();
  if (!socket_->receive(parts_)) return false;
  for (const auto& part : parts_) bytes += part.size();
  return true;
}

void Session::on_frame(std::vector<MessagePart> parts) {
  auto reader = FrameReader::open(parts);
  if (!reader) {
    const Error error = reader.error().within("the broker at " + options_.endpoint);
    if (error.code() == ErrorCode::version_mismatch && state_ != State::up) {
      give_up(error);
    } else {
      drop(error.detail());
    }
    return;
  }
  credit_.on_credit(reader->header().credit());
  const bool is_data = reader->header().lane() == wire::Lane::data;
  if (is_data && !options_.link) {
    inbox_.push(std::move(parts), *reader);
    return;
  }
  const auto generation = generation_;
  const bool was_up = state_ == State::up;
  if (was_up && reader->is_link() && options_.link && !events_.on_link_frame(*reader)) return;
  FrameReader::Message message;
  while (generation == generation_ && reader->next(message)) {
    const std::size_t size = sizeof message.envelope + message.body.size();
    if (is_data) {
      credit_.take_data(size);
    } else {
      credit_.take_control(size);
    }
    if (!on_session_message(message) && generation == generation_ && events_.on_message)
      events_.on_message(message);
  }
  // Frames that the Welcome acknowledges need not be sent again.
  if (generation == generation_ && !was_up && state_ == State::up && reader->is_link() &&
      options_.link)
    events_.on_link_frame(*reader);
  if (generation == generation_ && reader->is_malformed())
    drop("the broker at " + options_.endpoint + " sent a malformed frame");
  if (generation == generation_) parts_ = std::move(parts);
}

bool Session::hand_out(bool all) {
  const auto handle = [this](const FrameReader::Message& message,
                             const std::shared_ptr<const void>& frame) {
    credit_.take_data(sizeof message.envelope + message.body.size());
    if (events_.on_data) {
      events_.on_data(message, frame);
    } else if (events_.on_message) {
      events_.on_message(message);
    }
  };
  const auto outcome = inbox_.hand_out(all, handle);
  if (outcome == DataInbox::Outcome::malformed)
    drop("the broker at " + options_.endpoint + " sent a malformed frame");
  return outcome == DataInbox::Outcome::more;
}

void Session::hold_data(bool held) {
  const bool was_held = inbox_.is_held();
  inbox_.set_held(held);
  if (was_held && !held && !inbox_.empty() && socket_) socket_->read_again();
}

bool Session::on_session_message(const FrameReader::Message& message) {
  // Only our own broker speaks without a source host and proc.
  if (message.envelope.kind() != wire::Kind::control ||
      message.envelope.role() != wire::Role::broker || message.envelope.destination_proc() != 0)
    return false;
  const auto control = ControlMessage::decode(message.body);
  if (!control) return false;
  switch ((*control)->body_type()) {
    case wire::Body::Welcome:
      // It answers our Hello; a Welcome before that answers nothing.
      if (state_ == State::connecting) return false;
      on_welcome(*control->body_as<wire::Welcome>());
      return true;
    case wire::Body::Refusal: {
      if (state_ == State::up) return false;
      const auto* refusal = control->body_as<wire::Refusal>();
      give_up(Error(from_wire(refusal->code()), "the broker at " + options_.endpoint +
                                                    " refused: " + text_of(refusal->detail())));
      return true;
    }
    case wire::Body::Heartbeat: return true;
    case wire::Body::Bye:
      has_said_bye_ = true;
      drop("the broker at " + options_.endpoint +
           " ends: " + text_of(control->body_as<wire::Bye>()->reason()));
      return true;
    default: return false;
  }
}

void Session::on_welcome(const wire::Welcome& welcome) {
  const auto& hello = options_.hello;
  const Protocol own{hello.version, hello.oldest == 0 ? hello.version : hello.oldest,
                     hello.release};
  if (const auto version = common_version(
          "this side", own, "the broker of " + welcome.host()->str(), Protocol::of(welcome));
      !version) {
    give_up(version.error());
    return;
  }
  state_ = State::up;
  has_said_bye_ = false;
  attempts_.on_up();
  heartbeat_.begin(std::chrono::milliseconds(welcome.heartbeat_ms()), reactor_.now());
  arm_heartbeat();
  // Agents and controllers bound what each of their listeners has on the way
  // (agent/host/output/log_streams.h): a listener that stops must not hold back the others, as it
  // would if all shared one window.
  const bool is_program =
      hello.kind == wire::PeerKind::proc || hello.kind == wire::PeerKind::launcher;
  credit_.set_credited(is_program && (welcome.capabilities() & kCapabilityCredit) != 0);
  if (events_.on_welcome) events_.on_welcome(welcome);
}

void Session::on_heartbeat_timer() {
  const auto verdict = heartbeat_.check(reactor_.now());
  if (verdict == SessionHeartbeat::Verdict::lost)
    return drop("nothing heard from " + options_.endpoint + " for " +
                std::to_string(heartbeat_.limit().count()) + " ms");
  if (verdict == SessionHeartbeat::Verdict::send) {
    // Data that waits for credit does not show that we are alive.
    const Lock held = lock();
    if (outbox_.empty(wire::Lane::control))
      outbox_.push(to_broker(), encode_control({}, wire::HeartbeatT()));
  }
  arm_heartbeat();
}

void Session::arm_heartbeat() {
  reactor_.cancel(timer_);
  timer_ = reactor_.at(heartbeat_.due(), [this] { on_heartbeat_timer(); });
}

Frame* Session::next_frame() {
  const Lock held = lock();
  return outbox_.front();
}

void Session::flush_early() {
  if (credit_.under_way() < kEarly) flush();
}

void Session::flush() {
  if (state_ != State::up) return;
  for (;;) {
    // Other threads may add frames meanwhile, but only this one takes them out.
    Frame* const frame = next_frame();
    if (frame == nullptr) break;
    const bool is_data = frame->lane == wire::Lane::data;
    // The broker's credit comes in a frame, and at the end of that turn this is called again.
    if (is_data && !credit_.may_send(frame->bytes)) break;
    // Once it takes more, this is called again.
    if (!send(*frame, 0)) return;
    if (is_data) credit_.on_sent(frame->bytes);
    const Lock held = lock();
    outbox_.pop();
  }
  if (!credit_.has_news() || !credit_.is_due(reactor_.now())) return;
  Frame announcement = FrameWriter(wire::Lane::control, options_.link).finish();
  send(announcement, 0);
}

bool Session::send(Frame& frame, std::uint64_t number) {
  frame.set_credit(credit_.taken());
  if (options_.link) frame.set_link(number, events_.link_ack());
  if (!socket_->send(frame)) return false;
  credit_.on_announced();
  heartbeat_.on_sent();
  sent_at_.store(Reactor::Clock::now(), std::memory_order_relaxed);
  return true;
}

}  // namespace meshbus
