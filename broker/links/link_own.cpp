// Our own session to the other broker: makes it, and makes it again after a loss.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "broker/links/link.h"
#include "common/base/log.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::milliseconds kLeastSlice{1000};

}  // namespace

void Link::open() {
  const auto limit =
      std::min<Reactor::Duration>(options_.connect_limit, deadline() - reactor_.now());
  limit_timer_ = reactor_.after(limit, [this] { on_connect_limit(); });
  if (Resolver::is_literal(host_)) {
    endpoints_ = {host_.zmq_endpoint()};
    next_endpoint_ = 0;
    try_next_endpoint();
    return;
  }
  // The addresses that the name had are tried while it is looked up again: the name server may be
  // what is away.
  if (!endpoints_.empty()) try_next_endpoint();
  if (!is_resolving_) resolve();
}

void Link::resolve() {
  is_resolving_ = true;
  resolver_.resolve(host_, [this, alive = std::weak_ptr<void>(alive_)](
                               Result<std::vector<std::string>> endpoints) {
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
  if (fault_.is_cut(reactor_.now())) return;  // end_fault() goes on
  next_endpoint_ %= endpoints_.size();
  open_session(endpoints_[next_endpoint_++]);
  if (endpoints_.size() == 1) return;
  // The addresses of a name take turns until one answers.
  const auto slice =
      std::max(kLeastSlice, options_.connect_limit / static_cast<int>(endpoints_.size()));
  slice_timer_ = reactor_.after(slice, [this] {
    slice_timer_ = 0;
    if (session_ != nullptr && !is_own_up()) try_next_endpoint();
  });
}

void Link::open_session(const std::string& endpoint) {
  Session::Options options;
  options.endpoint = endpoint;
  announce(options.hello, options_.protocol);
  options.hello.capabilities = options_.capabilities;
  options.hello.peer = options_.own_host.to_string();
  options.hello.kind = wire::PeerKind::link;
  options.hello.incarnation = options_.incarnation;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  options.limits = options_.limits;
  options.link = true;
  options.connect_limit = options_.connect_limit;
  options.keys = options_.keys;
  Session::Events events;
  events.on_welcome = [this](const wire::Welcome& welcome) { on_welcome(welcome); };
  events.on_lost = [this](const std::string& reason) { on_lost(reason); };
  events.on_refused = [this](const Error& error) {
    end_own(error.within("link to " + host_.to_string()));
  };
  events.on_trouble = [this](const std::string& reason) { trouble_ = reason; };
  events.on_message = [this](const FrameReader::Message& message) {
    if (is_own_up()) {
      events_.on_message(*this, message);
    } else if (session_ != nullptr) {
      end_own(Error(ErrorCode::malformed_message,
                    "the broker at " + host_.to_string() + " sent messages before its Welcome"));
    }
  };
  events.on_link_frame = [this](const FrameReader& frame) {
    return on_frame(frame, session_incarnation_);
  };
  events.link_ack = [this] { return stream_.taken(); };
  session_ = std::make_unique<Session>(reactor_, std::move(options), std::move(events));
}

void Link::check_keys() {
  if (!options_.keys || !is_own_up()) return;
  const auto keys = options_.keys();
  if (keys && std::find(keys->servers.begin(), keys->servers.end(), session_->server_key()) !=
                  keys->servers.end())
    return;
  // It tries again with what is there now, and ends for good when that is nothing.
  session_->reconnect("the key of that host was replaced or removed");
}

void Link::on_welcome(const wire::Welcome& welcome) {
  const std::string there = welcome.host()->str();
  if (there != host_.to_string()) {
    end_own(Error(ErrorCode::identity_mismatch,
                  "the broker that answers at " + host_.to_string() + " serves " + there));
    return;
  }
  if (auto met = meet(welcome.incarnation(), welcome.capabilities()); !met) {
    end_own(met.error());
    return;
  }
  session_incarnation_ = welcome.incarnation();
  trouble_.clear();
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  log::info("link to " + host_.to_string() + " is up");
  events_.on_up(*this);
  if (way_ != Way::inbound) take_way(Way::own);
}

void Link::on_lost(const std::string& reason) {
  const Error error(ErrorCode::link_lost,
                    "the link to " + host_.to_string() + " is lost: " + reason);
  log::info(error.detail());
  events_.on_down(*this, error);
  touch();
  // A broker that does not resume means the connection alone by its Bye.
  if ((session_->has_said_bye() || has_said_bye_) && is_resuming_) {
    if (inbound_ != nullptr && inbound_->identity.incarnation == incarnation()) {
      // What it has said by that connection may not be read yet.
      has_said_bye_ = true;
      session_incarnation_ = 0;
      retire_session();
      if (way_ == Way::own) take_way(Way::inbound);
      return;
    }
    end_incarnation("it has ended in order");
    retire_session();
    if (way_ == Way::own) way_ = Way::none;
    if (way_ == Way::none && held() > 0) choose();
    return;
  }
  session_incarnation_ = 0;
  if (way_ == Way::inbound) {
    retire_session();
    return;
  }
  lost_ = opened_ = reactor_.now();
  if (inbound_ != nullptr) {
    retire_session();
    take_way(Way::inbound);
    return;
  }
  // The session tries again by itself. Even with nothing to send: the other broker may not be able
  // to reach us.
  limit_timer_ = reactor_.after(std::min(options_.connect_limit, options_.delivery_limit),
                                [this] { on_connect_limit(); });
}

Reactor::Time Link::deadline() const {
  if (!lost_) return opened_ + options_.connect_limit;
  return std::max(opened_ + std::min(options_.connect_limit, options_.delivery_limit),
                  *lost_ + options_.delivery_limit);
}

void Link::on_connect_limit() {
  limit_timer_ = 0;
  if (way_ == Way::own && reactor_.now() < deadline()) {
    retire_session();
    open();
    return;
  }
  const auto waited = lost_ ? options_.delivery_limit : options_.connect_limit;
  const std::string why = is_resolving_ && endpoints_.empty() ? "its name is not resolved yet"
                          : trouble_.empty()                  ? "nobody answers there"
                                                              : trouble_;
  end_own(Error(ErrorCode::host_unreachable, "no link to " + host_.to_string() + " within " +
                                                 std::to_string(waited.count()) + " ms: " + why +
                                                 "; is the host up, and its address right?"));
}

void Link::end_own(const Error& error) {
  reactor_.cancel(limit_timer_);
  reactor_.cancel(slice_timer_);
  limit_timer_ = slice_timer_ = 0;
  log::info("link to " + host_.to_string() + ": " + error.to_string());
  events_.on_down(*this, error);
  touch();
  retire_session();
  if (way_ != Way::own) return;
  way_ = Way::none;
  if (inbound_ != nullptr) {
    take_way(Way::inbound);
  } else {
    give_up(error);
  }
}

bool Link::disturb(const LinkFault::Order& order) {
  if (is_disturbed()) return false;
  fault_.begin(order);
  fault_timer_ = reactor_.at(order.end, [this] { end_fault(); });
  if (order.kind == LinkFault::Kind::cut) cut();
  return true;
}

void Link::cut() {
  trouble_ = "the link is cut on purpose (meshbus chaos)";
  // The other broker hears of it at once, and not when it next sends something.
  if (inbound_ != nullptr) ::shutdown(inbound_->descriptor, SHUT_RDWR);
  drop_inbound();
  if (is_own_up()) session_->reconnect(trouble_);
  // It would connect again by itself.
  if (!is_own_up()) retire_session();
}

void Link::end_fault() {
  fault_timer_ = 0;
  fault_.clear();
  log::info("link to " + host_.to_string() + " is not disturbed any more");
  const bool is_opening = limit_timer_ != 0 && session_ == nullptr;
  if (is_opening && !endpoints_.empty()) try_next_endpoint();
  touch();
}

void Link::retire_session() {
  session_incarnation_ = 0;
  if (session_ == nullptr) return;
  session_->close({}, std::chrono::milliseconds(0));
  // A function must be copyable, so the session travels in a shared pointer.
  reactor_.post(
      [session = std::shared_ptr<Session>(std::move(session_))]() mutable { session.reset(); });
}

}  // namespace meshbus
