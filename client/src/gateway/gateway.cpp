#include "client/src/gateway/gateway.h"

#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// A broker that is away for this long is left for that of another host, whose agents can be heard
/// from there. Its loss takes up to 2 s to be noticed: together within the 5 s of spec 8.7.
constexpr std::chrono::seconds kMoveLimit{2};

}  // namespace

Gateway::Gateway(Reactor& reactor, HostAddr host, Options options, Events events)
    : reactor_(reactor),
      host_(std::move(host)),
      options_(std::move(options)),
      events_(std::move(events)),
      status_(host_),
      name_(LauncherName::draw()),
      incarnation_(random_u64()) {}

void Gateway::open() {
  connect();
  down_since_ = since_;
}

void Gateway::connect() {
  Session::Options options;
  options_.reach(host_, options);
  name_.introduce(options.hello);
  options.hello.kind = wire::PeerKind::launcher;
  options.hello.incarnation = incarnation_;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Bus::Events events;
  events.on_up = [this](const wire::Welcome& welcome) { on_up(welcome); };
  events.on_down = [this](const std::string& reason) {
    down_since_ = reactor_.now();
    status_.set_down(reason);
    if (!bus_->has_broker_left()) return;
    // Not from within the Bus: to move is to destroy it.
    reactor_.post([this, left = host_, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired() && host_ == left && is_away()) events_.on_broker_left();
    });
  };
  events.on_trouble = [this](const std::string& reason) { status_.note_problem(reason); };
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_data = events_.on_data;
  events.on_undeliverable = events_.on_undeliverable;
  // Nothing that arrives here is queued: it is counted as taken at once.
  events.when_taken = [](const std::function<void()>& then) { then(); };
  since_ = reactor_.now();
  bus_ = std::make_unique<Bus>(reactor_, std::move(options), events_.make_handlers(),
                               std::move(events));
  bus_->set_body_limit(options_.body_limit);
  bus_->set_direct(true);
}

Error Gateway::closed_error() const {
  return {ErrorCode::host_unreachable, "the connection to " + host_.to_string() + " is closed"};
}

void Gateway::on_up(const wire::Welcome& welcome) {
  const auto announced = text_of(welcome.host());
  const auto host = HostAddr::parse(announced);
  if (!host || *host != host_) {
    on_refused(Error(ErrorCode::identity_mismatch,
                     "at " + host_.to_string() + " answers a host that calls itself " + announced));
    retire();
    reactor_.post([this, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) events_.on_other_host();
    });
    return;
  }
  down_since_.reset();
  has_given_up_ = false;
  const auto self = bus_->self() ? *bus_->self() : ProcId(*host, ProcName(name_.name));
  if (status_.set_up(self.to_string())) events_.on_up_again();
}

void Gateway::on_refused(const Error& error) {
  status_.set_refused(error);
  events_.on_refused(error.detail());
}

std::optional<std::string> Gateway::give_up(Time now, std::chrono::milliseconds limit) {
  if (has_given_up_ || !down_since_ || now - *down_since_ < limit) return std::nullopt;
  has_given_up_ = true;
  return "no connection to the broker at " + host_.to_string() + " for " +
         std::to_string(limit.count()) + " ms";
}

bool Gateway::should_move(Time now) const {
  return down_since_ && now - since_ >= kMoveLimit && now - *down_since_ >= kMoveLimit;
}

void Gateway::extend(Time now) {
  if (down_since_) down_since_ = now;
}

void Gateway::move_to(const HostAddr& host) {
  log::warn("the broker at " + host_.to_string() + " is away; going on from " + host.to_string());
  const auto down_since = down_since_.value_or(reactor_.now());
  bus_->close("moving to another host");
  events_.on_left();
  bus_.reset();
  host_ = host;
  status_.set_host(host);
  connect();
  // The time without any broker counts, not that without this one.
  down_since_ = down_since;
}

void Gateway::retire() {
  is_retired_ = true;
  events_.on_left();
}

void Gateway::close(const std::string& reason) {
  if (bus_ != nullptr) bus_->close(reason);
  events_.on_left();
  bus_.reset();
  status_.set_closed(reason);
}

}  // namespace meshbus
