#include "broker/link.h"

#include <unistd.h>

#include <algorithm>

#include "common/log.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLeastSlice{1000};

/// The session's own heartbeats and farewells wait in the same queue; they carry no source.
bool is_of_session(const wire::Envelope& envelope) {
  return envelope.source_host() == 0;
}

}  // namespace

Link::Link(Reactor& reactor, zmq::context_t& context, Resolver& resolver, HostAddr host, Options options, Events events)
    : reactor_(reactor),
      context_(context),
      resolver_(resolver),
      host_(std::move(host)),
      key_(host_.key()),
      options_(std::move(options)),
      events_(std::move(events)),
      pending_(options_.limits, /*link=*/true),
      last_used_(reactor.now()) {}

Link::~Link() {
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
}

bool Link::push(const wire::Envelope& envelope, Bytes body, zmq::message_t* apart) {
  last_used_ = reactor_.now();
  if (way_ == Way::none) choose();
  if (way_ == Way::inbound) {
    if (!inbound_->outbox.push(envelope, body, apart)) return false;
    events_.on_touched(*inbound_);
    return true;
  }
  if (session_ == nullptr || !session_->is_up()) return pending_.push(envelope, body, apart);
  if (!session_->push(envelope, body, apart)) return false;
  ++pushed_;
  return true;
}

void Link::choose() {
  if (inbound_ != nullptr) {
    way_ = Way::inbound;
    return;
  }
  way_ = Way::own;
  if (!has_own()) open();
}

void Link::attach(Peer& inbound) {
  inbound_ = &inbound;
  if (way_ != Way::own || (session_ != nullptr && session_->is_up())) return;
  // Nothing has left yet, so the order is kept.
  way_ = Way::inbound;
  pending_.drain([&](const wire::Envelope& envelope, Bytes body) {
    if (!inbound.outbox.push(envelope, body))
      events_.on_return(envelope, body, Error(ErrorCode::queue_full, "the queue to " + host_.to_string() + " is full"));
  });
  events_.on_touched(inbound);
}

void Link::detach(const Peer& inbound) {
  if (inbound_ != &inbound) return;
  last_used_ = reactor_.now();
  inbound_ = nullptr;
  if (way_ == Way::inbound) way_ = Way::none;
}

void Link::open() {
  limit_timer_ = reactor_.after(options_.connect_limit, [this] { on_connect_limit(); });
  if (Resolver::is_literal(host_)) {
    endpoints_ = {host_.zmq_endpoint()};
    next_endpoint_ = 0;
    try_next_endpoint();
  } else {
    resolve();
  }
}

void Link::resolve() {
  is_resolving_ = true;
  resolver_.resolve(host_, [this, alive = std::weak_ptr<void>(alive_)](Result<std::vector<std::string>> endpoints) {
    if (alive.expired() || !is_resolving_) return;
    is_resolving_ = false;
    if (!endpoints) {
      end_own(endpoints.error());
      return;
    }
    endpoints_ = std::move(*endpoints);
    next_endpoint_ = 0;
    try_next_endpoint();
  });
}

void Link::try_next_endpoint() {
  retire_session();
  open_session(endpoints_[next_endpoint_]);
  next_endpoint_ = (next_endpoint_ + 1) % endpoints_.size();
  if (endpoints_.size() == 1) return;
  // The addresses of a name take turns until one answers.
  const auto slice = std::max(kLeastSlice, options_.connect_limit / static_cast<int>(endpoints_.size()));
  slice_timer_ = reactor_.after(slice, [this] {
    if (session_ != nullptr && !session_->is_up()) try_next_endpoint();
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
  session_ = std::make_unique<Session>(reactor_, context_, std::move(options), std::move(events));
}

void Link::on_welcome(const wire::Welcome& welcome) {
  const std::string there = welcome.host()->str();
  if (there != host_.to_string()) {
    end_own(Error(ErrorCode::identity_mismatch, "the broker that answers at " + host_.to_string() + " serves " + there));
    return;
  }
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  incarnation_ = welcome.incarnation();
  log::info("link to " + host_.to_string() + " is up");
  events_.on_up(*this);
  pending_.drain([&](const wire::Envelope& envelope, Bytes body) {
    if (session_->push(envelope, body)) {
      ++pushed_;
    } else {
      events_.on_return(envelope, body, Error(ErrorCode::queue_full, "the queue to " + host_.to_string() + " is full"));
    }
  });
}

void Link::on_lost(const std::string& reason) {
  end_own(Error(ErrorCode::link_lost, "the link to " + host_.to_string() + " is lost: " + reason));
}

void Link::on_connect_limit() {
  limit_timer_ = 0;
  const std::string why = is_resolving_ ? "its name is not resolved yet" : "nobody answers there";
  end_own(Error(ErrorCode::host_unreachable, "no link to " + host_.to_string() + " within " +
                                                 std::to_string(options_.connect_limit.count()) + " ms: " + why +
                                                 "; is the host up, and its address right?"));
}

void Link::end_own(const Error& error) {
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  is_resolving_ = false;
  if (way_ == Way::own) way_ = Way::none;
  log::info("link to " + host_.to_string() + ": " + error.to_string());
  events_.on_down(*this, error);
  // Emptied before anybody is told: a return may be pushed into this very link again.
  Outbox unsent = std::exchange(pending_, Outbox(options_.limits, /*link=*/true));
  std::unique_ptr<Outbox> unsent_by_session;
  if (session_ != nullptr) {
    unsent_by_session = std::make_unique<Outbox>(std::exchange(session_->outbox(), Outbox(options_.limits, /*link=*/true)));
  }
  retire_session();
  if (unsent_by_session) pushed_ -= return_all(*unsent_by_session, error);
  return_all(unsent, error);
}

std::uint64_t Link::return_all(Outbox& outbox, const Error& error) {
  std::uint64_t count = 0;
  outbox.drain([&](const wire::Envelope& envelope, Bytes body) {
    if (is_of_session(envelope)) return;
    ++count;
    events_.on_return(envelope, body, error);
  });
  return count;
}

void Link::retire_session() {
  if (session_ == nullptr) return;
  session_->close("this link ends");
  // A function must be copyable, so the session travels in a shared pointer.
  reactor_.post([session = std::shared_ptr<Session>(std::move(session_))]() mutable { session.reset(); });
}

std::uint64_t Link::delivered() const noexcept {
  return session_ == nullptr ? pushed_ : pushed_ - std::min<std::uint64_t>(pushed_, session_->outbox().count());
}

std::size_t Link::held() const noexcept {
  return pending_.count() + (session_ == nullptr ? 0 : session_->outbox().count());
}

void Link::close(const std::string& reason) {
  if (session_ != nullptr && session_->is_up()) {
    session_->close(reason);
    return;
  }
  end_own(Error(ErrorCode::host_unreachable, "this host ends: " + reason));
}

}  // namespace meshbus
