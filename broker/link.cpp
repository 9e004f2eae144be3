#include "broker/link.h"

#include <unistd.h>

#include <algorithm>

#include "common/log.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLeastSlice{1000};
/// Bytes of data, and of control, that may be sent and not acknowledged: some 3 ms of 10 Gbit/s, and an acknowledgement is never later than
/// kAckStep bytes or kAckDelay.
constexpr std::size_t kLinkWindow = 4 * 1024 * 1024;
constexpr std::size_t kAckStep = kLinkWindow / 8;
constexpr std::chrono::milliseconds kAckDelay{20};
constexpr std::chrono::milliseconds kLinkRetry{1};
constexpr std::size_t kPastLives = 64;

}  // namespace

Link::Link(Reactor& reactor, zmq::context_t& context, Resolver& resolver, HostAddr host, Options options, Events events,
           LinkStream::Memory memory)
    : reactor_(reactor),
      context_(context),
      resolver_(resolver),
      host_(std::move(host)),
      key_(host_.key()),
      options_(std::move(options)),
      events_(std::move(events)),
      outbox_(options_.limits, /*link=*/true),
      stream_(kLinkWindow, memory),
      last_used_(reactor.now()) {}

Link::~Link() {
  for (const auto timer : {limit_timer_, slice_timer_, retry_timer_, ack_timer_, progress_timer_}) reactor_.cancel(timer);
}

bool Link::push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  last_used_ = reactor_.now();
  if (way_ == Way::none) choose();
  if (held() == 0) progress_ = last_used_;
  bool is_queued = outbox_.push(envelope, body, apart);
  if (!is_queued) {
    // One turn may bring more than a queue holds.
    flush();
    is_queued = outbox_.push(envelope, body, apart);
  }
  touch();
  return is_queued;
}

void Link::touch() {
  if (!std::exchange(is_touched_, true)) events_.on_touched(*this);
}

void Link::choose() {
  if (inbound_ != nullptr) {
    take_way(Way::inbound);
    return;
  }
  way_ = Way::own;
  if (is_own_up()) {
    take_way(Way::own);
  } else if (!has_own()) {
    opened_ = reactor_.now();
    open();
  }
}

void Link::take_way(Way way) {
  way_ = way;
  is_for_life_ = true;
  lost_.reset();
  progress_ = reactor_.now();
  stream_.rewind();
  touch();
}

Result<void> Link::may_attach(std::uint64_t life) const {
  if (std::find(past_lives_.begin(), past_lives_.end(), life) == past_lives_.end()) return {};
  return fail(ErrorCode::identity_mismatch, "this life of the broker of " + host_.to_string() + " is over: " +
                                                (incarnation() == 0 ? "it has said that it ends" : "a later one has been met"));
}

Result<void> Link::meet(std::uint64_t life, std::uint64_t capabilities) {
  if (auto may = may_attach(life); !may) return may;
  if (stream_.memory().life != life) {
    if (stream_.memory().life != 0) end_life("another life of that broker answers");
    stream_.begin_life(life);
  }
  is_resuming_ = (capabilities & kCapabilityResume) != 0;
  return {};
}

void Link::end_life(const std::string& why) {
  const auto life = incarnation();
  if (life == 0) return;
  past_lives_.push_back(life);
  if (past_lives_.size() > kPastLives) past_lives_.pop_front();
  stream_.begin_life(0);
  log::info("link to " + host_.to_string() + ": " + why);
  if (is_for_life_)
    give_up(Error(ErrorCode::link_lost, "the broker of " + host_.to_string() + " that this was for is gone: " + why));
  if (session_life_ == life) {
    retire_session();
    if (way_ == Way::own) way_ = Way::none;
  }
  if (inbound_ != nullptr) events_.on_superseded(*inbound_);
}

void Link::attach(Peer& inbound) {
  // Ends what there is of an earlier life.
  if (auto met = meet(inbound.identity.incarnation, inbound.identity.capabilities); !met) return;
  inbound_ = &inbound;
  if (way_ == Way::own && is_own_up()) return;
  take_way(Way::inbound);
}

void Link::detach(const Peer& inbound, bool is_last) {
  if (inbound_ != &inbound) return;
  last_used_ = reactor_.now();
  inbound_ = nullptr;
  if (way_ == Way::inbound) {
    way_ = Way::none;
    lost_ = last_used_;
  }
  if (is_last && is_resuming_ && inbound.identity.incarnation == incarnation()) end_life("it has ended in order");
  if (way_ == Way::none && held() > 0) choose();
}

void Link::open() {
  const auto limit = std::min<Reactor::Duration>(options_.connect_limit, deadline() - reactor_.now());
  limit_timer_ = reactor_.after(limit, [this] { on_connect_limit(); });
  if (Resolver::is_literal(host_)) {
    endpoints_ = {host_.zmq_endpoint()};
    next_endpoint_ = 0;
    try_next_endpoint();
    return;
  }
  // What the name meant is tried while it is asked for again: the name server may be what is away.
  if (!endpoints_.empty()) try_next_endpoint();
  if (!is_resolving_) resolve();
}

void Link::resolve() {
  is_resolving_ = true;
  resolver_.resolve(host_, [this, alive = std::weak_ptr<void>(alive_)](Result<std::vector<std::string>> endpoints) {
    if (alive.expired()) return;
    is_resolving_ = false;
    const bool is_opening = limit_timer_ != 0 && !is_own_up();
    if (!endpoints) {
      if (is_opening && endpoints_.empty()) end_own(endpoints.error());
      return;
    }
    const bool is_news = *endpoints != endpoints_;
    endpoints_ = std::move(*endpoints);
    if (!is_opening || !is_news) return;
    next_endpoint_ = 0;
    try_next_endpoint();
  });
}

void Link::try_next_endpoint() {
  reactor_.cancel(slice_timer_);
  slice_timer_ = 0;
  retire_session();
  next_endpoint_ %= endpoints_.size();
  open_session(endpoints_[next_endpoint_++]);
  if (endpoints_.size() == 1) return;
  // The addresses of a name take turns until one answers.
  const auto slice = std::max(kLeastSlice, options_.connect_limit / static_cast<int>(endpoints_.size()));
  slice_timer_ = reactor_.after(slice, [this] {
    slice_timer_ = 0;
    if (session_ != nullptr && !is_own_up()) try_next_endpoint();
  });
}

void Link::open_session(const std::string& endpoint) {
  Session::Options options;
  options.endpoint = endpoint;
  announce(options.hello, options_.protocol);
  options.hello.peer = options_.own_host.to_string();
  options.hello.kind = wire::PeerKind::link;
  options.hello.incarnation = options_.incarnation;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  options.limits = options_.limits;
  options.link = true;
  options.connect_limit = options_.connect_limit;
  Session::Events events;
  events.on_welcome = [this](const wire::Welcome& welcome) { on_welcome(welcome); };
  events.on_lost = [this](const std::string& reason) { on_lost(reason); };
  events.on_refused = [this](const Error& error) { end_own(error.within("link to " + host_.to_string())); };
  events.on_message = [this](const FrameReader::Message& message) { events_.on_message(*this, message); };
  events.on_link_frame = [this](const FrameReader& frame) { return on_frame(frame, session_life_); };
  events.link_ack = [this] { return stream_.taken(); };
  session_ = std::make_unique<Session>(reactor_, context_, std::move(options), std::move(events));
}

void Link::on_welcome(const wire::Welcome& welcome) {
  const std::string there = welcome.host()->str();
  if (there != host_.to_string()) {
    end_own(Error(ErrorCode::identity_mismatch, "the broker that answers at " + host_.to_string() + " serves " + there));
    return;
  }
  if (auto met = meet(welcome.incarnation(), welcome.capabilities()); !met) {
    end_own(met.error());
    return;
  }
  session_life_ = welcome.incarnation();
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  log::info("link to " + host_.to_string() + " is up");
  events_.on_up(*this);
  if (way_ != Way::inbound) take_way(Way::own);
}

void Link::on_lost(const std::string& reason) {
  const Error error(ErrorCode::link_lost, "the link to " + host_.to_string() + " is lost: " + reason);
  log::info(error.detail());
  events_.on_down(*this, error);
  last_used_ = reactor_.now();
  // A broker that does not resume says it of the connection.
  if (session_->has_said_bye() && is_resuming_) {
    end_life("it has ended in order");
    retire_session();
    if (way_ == Way::own) way_ = Way::none;
    if (way_ == Way::none && held() > 0) choose();
    return;
  }
  session_life_ = 0;
  if (way_ == Way::inbound) {
    retire_session();
    return;
  }
  lost_ = opened_ = last_used_;
  if (inbound_ != nullptr) {
    retire_session();
    take_way(Way::inbound);
    return;
  }
  // The session tries again by itself. Even with nothing to send: the other broker may not be able to reach us.
  limit_timer_ = reactor_.after(std::min(options_.connect_limit, options_.delivery_limit), [this] { on_connect_limit(); });
}

Reactor::Time Link::deadline() const {
  if (!lost_) return opened_ + options_.connect_limit;
  return std::max(opened_ + std::min(options_.connect_limit, options_.delivery_limit), *lost_ + options_.delivery_limit);
}

void Link::on_connect_limit() {
  limit_timer_ = 0;
  if (way_ == Way::own && reactor_.now() < deadline()) {
    retire_session();
    open();
    return;
  }
  const auto waited = lost_ ? options_.delivery_limit : options_.connect_limit;
  const std::string why = is_resolving_ && endpoints_.empty() ? "its name is not resolved yet" : "nobody answers there";
  end_own(Error(ErrorCode::host_unreachable, "no link to " + host_.to_string() + " within " + std::to_string(waited.count()) +
                                                 " ms: " + why + "; is the host up, and its address right?"));
}

void Link::end_own(const Error& error) {
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  log::info("link to " + host_.to_string() + ": " + error.to_string());
  events_.on_down(*this, error);
  retire_session();
  if (way_ != Way::own) return;
  way_ = Way::none;
  if (inbound_ != nullptr) {
    take_way(Way::inbound);
  } else {
    give_up(error);
  }
}

void Link::give_up(const Error& error) {
  lost_.reset();
  is_for_life_ = false;
  // Emptied before anybody is told: a return may be pushed into this very link again.
  Outbox unsent = std::exchange(outbox_, outbox_.emptied());
  const Error unknown(ErrorCode::fate_unknown,
                      "it was sent to " + host_.to_string() + ", which has not said that it took it: " + error.detail());
  stream_.give_up([&](const wire::Envelope& envelope, Bytes) { events_.on_return(envelope, unknown); });
  unsent.drain([&](const wire::Envelope& envelope, Bytes) { events_.on_return(envelope, error); });
}

void Link::retire_session() {
  session_life_ = 0;
  if (session_ == nullptr) return;
  session_->close({}, std::chrono::milliseconds(0));
  // A function must be copyable, so the session travels in a shared pointer.
  reactor_.post([session = std::shared_ptr<Session>(std::move(session_))]() mutable { session.reset(); });
}

bool Link::on_frame(const FrameReader& frame, std::uint64_t life) {
  if (life != incarnation()) return false;
  if (!is_resuming_) return true;
  if (const auto done = stream_.acknowledge(frame.link().ack()); done > 0) {
    totals_.delivered += done;
    progress_ = reactor_.now();
    if (!outbox_.empty()) touch();
  }
  const auto number = frame.link().sequence();
  if (number == 0) return true;
  const bool is_new = stream_.take(number);
  if (!is_new) ++totals_.duplicate_frames;
  if (ack_owed_ == 0 && ack_timer_ == 0) {
    ack_timer_ = reactor_.after(kAckDelay, [this] {
      ack_timer_ = 0;
      if (ack_owed_ == 0) return;
      is_ack_due_ = true;
      touch();
    });
  }
  ack_owed_ += frame.size();
  if (ack_owed_ >= kAckStep) {
    is_ack_due_ = true;
    touch();
  }
  return is_new;
}

Listener::Sent Link::send(Way way, Frame& frame, std::uint64_t number) {
  if (way == Way::inbound) {
    frame.set_link(number, stream_.taken());
    const auto sent = events_.send(*inbound_, frame);
    if (sent != Listener::Sent::yes) return sent;
  } else if (!session_->send(frame, number)) {
    return Listener::Sent::full;
  }
  ack_owed_ = 0;
  is_ack_due_ = false;
  return Listener::Sent::yes;
}

void Link::flush() {
  is_touched_ = false;
  if (is_way_up()) {
    while (Frame* kept = stream_.replay()) {
      Frame frame = kept->renewed();
      if (const auto sent = send(way_, frame, stream_.replay_number()); sent != Listener::Sent::yes) {
        if (sent == Listener::Sent::full) retry_later();
        return;
      }
      ++totals_.replayed_frames;
      stream_.replayed();
    }
    while (Frame* frame = outbox_.front()) {
      if (is_resuming_ && !stream_.has_room(*frame)) break;  // an acknowledgement touches us
      Frame copy = frame->shared();                          // a connection that ends may have taken parts of it
      if (const auto sent = send(way_, copy, stream_.next_number()); sent != Listener::Sent::yes) {
        if (sent == Listener::Sent::full) retry_later();
        return;
      }
      if (is_resuming_) {
        stream_.keep(std::move(*frame));
      } else {
        stream_.pass();
        progress_ = reactor_.now();
        totals_.delivered += frame->count;
      }
      outbox_.pop();
    }
  }
  if (is_ack_due_) send_ack();
  if (held() > 0) watch_progress();
}

void Link::send_ack() {
  // Without any connection: the next one begins with it.
  const Way way = is_way_up() ? way_ : inbound_ != nullptr ? Way::inbound : is_own_up() ? Way::own : Way::none;
  if (way == Way::none) return;
  Frame frame = FrameWriter(wire::Lane::control, /*link=*/true).finish();
  if (send(way, frame, 0) == Listener::Sent::full) retry_later();
}

void Link::retry_later() {
  if (retry_timer_ != 0) return;
  retry_timer_ = reactor_.after(kLinkRetry, [this] {
    retry_timer_ = 0;
    touch();
  });
}

void Link::watch_progress() {
  if (progress_timer_ != 0) return;
  progress_timer_ = reactor_.after(options_.delivery_limit / 4, [this] {
    progress_timer_ = 0;
    if (held() == 0) return;
    if (is_way_up() && reactor_.now() - progress_ >= options_.delivery_limit) {
      // Connected, and yet nothing is taken: the other broker hangs.
      const std::string why = "the broker of " + host_.to_string() + " has taken nothing for " +
                              std::to_string(options_.delivery_limit.count()) + " ms (delivery.limit)";
      if (inbound_ != nullptr) events_.on_superseded(*inbound_);
      way_ = Way::own;
      end_own(Error(ErrorCode::link_lost, why));
      return;
    }
    watch_progress();
  });
}

void Link::close(const std::string& reason) {
  flush();
  if (is_own_up()) {
    session_->close(reason);
    return;
  }
  end_own(Error(ErrorCode::host_unreachable, "this host ends: " + reason));
}

}  // namespace meshbus
