#include "common/bus/session.h"

#include <algorithm>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "common/base/unix_peer.h"
#include "common/wire/protocol.h"
#include "wire/control_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{10};
constexpr std::chrono::milliseconds kLastBackoff{500};
/// So many handshakes in a row that ended without a word, over so long, are no accident.
constexpr std::size_t kSilentHandshakes = 4;
constexpr std::chrono::milliseconds kSilentTime{1000};
constexpr int kDrainFrames = 256;
/// Bytes of data on the way up to which somebody else than the end of a turn flushes: what a broker
/// may have taken without a word, and some more.
constexpr std::uint64_t kEarly = kCreditStep + 32 * 1024;
constexpr std::size_t kDrainBytes = 1024 * 1024;
/// Data is handed out for so long before the socket is looked at again: control is never further
/// away.
constexpr std::chrono::microseconds kSlice{200};
constexpr int kMostStride = 64;
/// A broker that sends far beyond its credit is read no further than this.
constexpr std::size_t kInboxLimit = 8 * 1024 * 1024;
/// And after this time, so that one who takes little is not thought to take nothing. It begins with
/// what is untold, unless this is a link, whose frames wait to be acknowledged: most of what is
/// taken is answered soon, and that tells it too.
constexpr std::chrono::milliseconds kCreditTime{250};
/// The broker is told of control, too, that was taken.
constexpr std::uint64_t kControlStep = 256 * 1024;

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

Session::Session(Reactor& reactor, zmq::context_t& context, Options options, Events events)
    : reactor_(reactor),
      context_(context),
      options_(std::move(options)),
      events_(std::move(events)),
      outbox_(options_.limits, options_.link) {
  if (options_.hello.version == 0) announce(options_.hello, Protocol());
  turn_end_ = reactor_.add_turn_end([this] { flush(); });
  open();
}

Session::~Session() {
  state_ = State::closed;
  close_socket();
  reactor_.forget_turn_end(turn_end_);
  reactor_.cancel(retry_timer_);
}

bool Session::push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  const Lock held = lock();
  return outbox_.push(envelope, body, apart);
}

void Session::open() {
  retry_timer_ = 0;
  ++generation_;
  state_ = State::connecting;
  taken_ = announced_ = control_unsaid_ = sent_ = credit_ = 0;
  is_credited_ = false;
  untold_since_ = {};
  std::optional<BrokerSocket::Keys> keys;
  if (options_.keys && !(keys = find_keys())) return;
  try {
    socket_ = BrokerSocket::open(
        reactor_, context_,
        {.endpoint = options_.endpoint, .keys = keys ? &*keys : nullptr, .is_link = options_.link},
        socket_events());
    limit_timer_ = reactor_.after(options_.connect_limit, [this] {
      drop("no answer from " + options_.endpoint + " in time");
    });
  } catch (const UntrustedListener& error) {
    const std::string why =
        "the broker at " + options_.endpoint + " is not trusted: " + error.what();
    // Not from within the constructor. A session that was up goes on trying: its own broker may
    // come back.
    if (was_ever_up_) {
      limit_timer_ = reactor_.after(std::chrono::milliseconds(0), [this, why] { drop(why); });
    } else {
      state_ = State::idle;
      retry_timer_ = reactor_.after(std::chrono::milliseconds(0),
                                    [this, why] { give_up(Error(ErrorCode::unauthorised, why)); });
    }
  } catch (const std::exception& error) {
    // Not from within the constructor.
    limit_timer_ = reactor_.after(std::chrono::milliseconds(0),
                                  [this, why = "cannot connect to " + options_.endpoint + ": " +
                                               error.what()] { drop(why); });
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
    on_handshake_failed(failure);
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
    state_ = State::idle;
    // Not from within the constructor.
    retry_timer_ = reactor_.after(std::chrono::milliseconds(0),
                                  [this, error = keys.error()] { give_up(error); });
    return std::nullopt;
  }
  own_key_path_ = keys->path;
  // While the other side changes its key it has two.
  server_key_ = keys->servers[silent_handshakes_ % keys->servers.size()];
  return BrokerSocket::Keys{keys->public_key, keys->secret_key, server_key_};
}

void Session::on_handshake_failed(BrokerSocket::Failure failure) {
  const bool has_keys = static_cast<bool>(options_.keys);
  if (failure == BrokerSocket::Failure::unauthorised) {
    give_up(Error(ErrorCode::unauthorised,
                  "the broker at " + options_.endpoint + " does not take the key " + own_key_path_ +
                      ": its public half is not in authorised/ROLE/ there, or not any more"));
    return;
  }
  if (failure == BrokerSocket::Failure::mechanism) {
    give_up(Error(
        ErrorCode::unauthorised,
        has_keys ? "the broker at " + options_.endpoint +
                       " speaks without encryption (--insecure?), and there are keys here (" +
                       own_key_path_ + "); to speak with it all the same: keys.directory=/dev/null"
                 : "the broker at " + options_.endpoint +
                       " takes connections with keys only, and there are none here: meshbus keygen "
                       "makes one, keys.directory says "
                       "where they are"));
    return;
  }
  if (state_ != State::connecting || !options_.endpoint.starts_with("tcp:")) return;
  // A broker says nothing to one without keys, nor to one whose handshake it cannot read. So does
  // one who ends, or a relay in front of one who is not up: hence again, and links, which have
  // messages to lose, go on.
  trouble_ = "the broker at " + options_.endpoint + " ends the handshake without a word; " +
             (has_keys ? "is the public key that is known here for that host its own?"
                       : "does it take connections with keys only? There are none here: meshbus "
                         "keygen makes one, keys.directory says where "
                         "they are");
  if (silent_handshakes_++ == 0) silent_since_ = reactor_.now();
  if (options_.link || was_ever_up_ || silent_handshakes_ < kSilentHandshakes ||
      reactor_.now() - silent_since_ < kSilentTime)
    return;
  give_up(Error(has_keys ? ErrorCode::identity_mismatch : ErrorCode::unauthorised, trouble_));
}

void Session::close_socket() {
  reactor_.cancel(limit_timer_);
  reactor_.cancel(heartbeat_timer_);
  limit_timer_ = heartbeat_timer_ = 0;
  if (!socket_) return;
  ++generation_;
  socket_.reset();
  inbox_.clear();
  inbox_bytes_ = 0;
}

void Session::drop(const std::string& reason) {
  if (state_ == State::closed) return;
  // What came before the end is still heard.
  const auto generation = generation_;
  hand_out(/*all=*/true);
  if (generation != generation_) return;
  const bool was_up = state_ == State::up;
  close_socket();
  state_ = State::idle;
  retry_later();
  if (!was_up && events_.on_trouble)
    events_.on_trouble(trouble_.empty() ? reason : std::exchange(trouble_, {}));
  if (was_up && events_.on_lost) events_.on_lost(reason);
}

void Session::give_up(const Error& error) {
  state_ = State::closed;
  close_socket();
  if (events_.on_refused) events_.on_refused(error);
}

void Session::retry_later() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  backoff_ = std::clamp(backoff_ * 2, kFirstBackoff, kLastBackoff);
  const auto jittered = std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(backoff_.count() / 2, backoff_.count())(random));
  retry_timer_ = reactor_.after(jittered, [this] { open(); });
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
  reactor_.cancel(retry_timer_);
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
  for (int frames = 0; frames < kDrainFrames && bytes < kDrainBytes && inbox_bytes_ < kInboxLimit;
       ++frames) {
    is_drained = !receive(bytes);
    if (is_drained) break;
    // A handler may close this session or open another.
    on_frame(std::exchange(parts_, {}));
    if (generation != generation_) return false;
  }
  if (bytes > 0) last_heard_ = reactor_.now();
  const bool is_more = hand_out(/*all=*/false);
  if (generation != generation_) return false;
  // Held data that fills the inbox: hold_data(false) calls again, nothing else can help.
  if (is_held_ && inbox_bytes_ >= kInboxLimit) return false;
  return is_more || !is_drained;
}

bool Session::receive(std::size_t& bytes) {
  parts_.clear();
  if (!socket_->receive(parts_)) return false;
  for (const auto& part : parts_) bytes += part.size();
  return true;
}

void Session::on_frame(std::vector<zmq::message_t> parts) {
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
  credit_ = std::clamp(reader->header().credit(), credit_, std::max(credit_, sent_));
  const bool is_data = reader->header().lane() == wire::Lane::data;
  if (is_data && !options_.link) {
    std::size_t bytes = 0;
    for (const auto& part : parts) bytes += part.size();
    inbox_.push_back(std::make_shared<Received>(std::move(parts), *reader, bytes));
    inbox_bytes_ += bytes;
    return;
  }
  const auto generation = generation_;
  const bool was_up = state_ == State::up;
  if (was_up && reader->is_link() && options_.link && !events_.on_link_frame(*reader)) return;
  FrameReader::Message message;
  while (generation == generation_ && reader->next(message)) {
    (is_data ? taken_ : control_unsaid_) += sizeof message.envelope + message.body.size();
    if (!on_session_message(message) && generation == generation_ && events_.on_message)
      events_.on_message(message);
  }
  // What the Welcome acknowledges need not be sent again.
  if (generation == generation_ && !was_up && state_ == State::up && reader->is_link() &&
      options_.link)
    events_.on_link_frame(*reader);
  if (generation == generation_ && reader->is_malformed())
    drop("the broker at " + options_.endpoint + " sent a malformed frame");
  if (generation == generation_) parts_ = std::move(parts);
}

bool Session::hand_out(bool all) {
  if (inbox_.empty() || (is_held_ && !all)) return false;
  const auto generation = generation_;
  const auto begin = Reactor::Clock::now();
  // So many messages until the clock is looked at again: one at first, more when they are quick.
  int stride = 1, left = 1;
  while (!inbox_.empty()) {
    // Out of the queue meanwhile: a handler may end the session.
    const std::shared_ptr<Received> frame = std::move(inbox_.front());
    inbox_.pop_front();
    FrameReader::Message message;
    while (frame->reader.next(message)) {
      taken_ += sizeof message.envelope + message.body.size();
      if (events_.on_data) {
        events_.on_data(message, frame);
      } else if (events_.on_message) {
        events_.on_message(message);
      }
      if (generation != generation_) return false;
      bool is_late = false;
      if (--left == 0) {
        const auto took = Reactor::Clock::now() - begin;
        is_late = took >= kSlice;
        if (took < kSlice / 8) stride = std::min(2 * stride, kMostStride);
        left = stride;
      }
      if (!all && (is_held_ || is_late)) {
        inbox_.push_front(frame);
        return !is_held_;
      }
    }
    inbox_bytes_ -= frame->bytes;
    if (frame->reader.is_malformed() && !all) {
      drop("the broker at " + options_.endpoint + " sent a malformed frame");
      return false;
    }
  }
  return false;
}

void Session::hold_data(bool held) {
  if (std::exchange(is_held_, held) == held || held || inbox_.empty() || !socket_) return;
  socket_->read_again();
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
      // It answers our Hello; one that comes before answers nothing.
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
  reactor_.cancel(limit_timer_);
  limit_timer_ = 0;
  state_ = State::up;
  has_said_bye_ = false;
  backoff_ = {};
  silent_handshakes_ = 0;
  was_ever_up_ = true;
  heartbeat_ = std::chrono::milliseconds(std::max(welcome.heartbeat_ms(), 50U));
  // Agents and controllers bound what each of their listeners has on the way
  // (agent/host/output/log_streams.h). One of these that stops must not keep the others from
  // hearing, as it would if all shared one window.
  const bool is_program =
      hello.kind == wire::PeerKind::proc || hello.kind == wire::PeerKind::launcher;
  is_credited_ = is_program && (welcome.capabilities() & kCapabilityCredit) != 0;
  last_heard_ = reactor_.now();
  arm_heartbeat();
  if (events_.on_welcome) events_.on_welcome(welcome);
}

void Session::on_heartbeat_timer() {
  const auto now = reactor_.now();
  // If this very timer is late, it is we who were away (stopped, starved): the broker gets a fresh
  // grace.
  if (now - heartbeat_due_ > heartbeat_ / 2) last_heard_ = now;
  if (now - last_heard_ > 3 * heartbeat_) {
    drop("nothing heard from " + options_.endpoint + " for " +
         std::to_string(3 * heartbeat_.count()) + " ms");
    return;
  }
  // Data that waits for credit is no sign of life.
  if (!std::exchange(has_sent_, false)) {
    const Lock held = lock();
    if (outbox_.empty(wire::Lane::control))
      outbox_.push(to_broker(), encode_control({}, wire::HeartbeatT()));
  }
  arm_heartbeat();
}

void Session::arm_heartbeat() {
  heartbeat_due_ = reactor_.now() + heartbeat_ / 2;
  heartbeat_timer_ = reactor_.at(heartbeat_due_, [this] { on_heartbeat_timer(); });
}

Frame* Session::next_frame() {
  const Lock held = lock();
  return outbox_.front();
}

void Session::flush_early() {
  if (sent_ - credit_ < kEarly) flush();
}

void Session::flush() {
  if (state_ != State::up) return;
  for (;;) {
    // Other threads may add frames meanwhile, but only this one takes them out.
    Frame* const frame = next_frame();
    if (frame == nullptr) break;
    const bool is_data = frame->lane == wire::Lane::data;
    // The broker's credit comes in a frame, and at the end of that turn this is called again.
    if (is_data && is_credited_ && !is_within_window(sent_ - credit_, frame->bytes)) break;
    // Once it takes more, this is called again.
    if (!send(*frame, 0)) return;
    if (is_data) sent_ += frame->bytes;
    const Lock held = lock();
    outbox_.pop();
  }
  if (taken_ - announced_ < kCreditStep && control_unsaid_ < kControlStep) {
    if (taken_ == announced_) return;
    const auto now = reactor_.now();
    if (untold_since_ == Reactor::Time{}) untold_since_ = now;
    if (now - (options_.link ? announced_at_ : untold_since_) < kCreditTime) return;
  }
  announced_at_ = reactor_.now();
  Frame credit = FrameWriter(wire::Lane::control, options_.link).finish();
  send(credit, 0);
}

bool Session::send(Frame& frame, std::uint64_t number) {
  frame.set_credit(taken_);
  if (options_.link) frame.set_link(number, events_.link_ack());
  if (!socket_->send(frame)) return false;
  announced_ = taken_;
  untold_since_ = {};
  control_unsaid_ = 0;
  has_sent_ = true;
  sent_at_.store(Reactor::Clock::now(), std::memory_order_relaxed);
  return true;
}

}  // namespace meshbus
