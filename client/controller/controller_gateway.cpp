#include "client/controller/controller_gateway.h"

#include <unistd.h>

#include <utility>

#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/bus_generated.h"

namespace meshbus {

ControllerGateway::ControllerGateway(Reactor& reactor, Options options, Events events)
    : reactor_(reactor),
      options_(std::move(options)),
      events_(std::move(events)),
      launcher_(LauncherName::draw()),
      name_(options_.is_controller ? Name::controller() : launcher_.name),
      incarnation_(random_u64()) {}

void ControllerGateway::open() {
  Session::Options options;
  options_.reach(options_.hosts[at_], options);
  launcher_.introduce(options.hello);
  options.hello.peer = name_.to_string();
  options.hello.kind =
      options_.is_controller ? wire::PeerKind::controller : wire::PeerKind::launcher;
  options.hello.incarnation = incarnation_;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Bus::Events events;
  events.on_up = [this](const wire::Welcome&) {
    down_since_.reset();
    refusals_ = 0;
    events_.on_up();
  };
  events.on_down = [this](const std::string& reason) {
    down_since_ = reactor_.now();
    events_.on_down();
    log::warn("the broker at " + options_.hosts[at_].to_string() + " is away: " + reason);
  };
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_undeliverable = events_.on_undeliverable;
  down_since_ = reactor_.now();
  is_refused_ = false;
  bus_ = std::make_unique<Bus>(reactor_, std::move(options), events_.make_handlers(),
                               std::move(events));
}

void ControllerGateway::close(const std::string& reason) {
  if (bus_ != nullptr) bus_->close(reason);
}

void ControllerGateway::on_refused(const Error& error) {
  // The brokers of other hosts may know the key.
  const bool may_wait = options_.waits_for_name && error.code() == ErrorCode::identity_mismatch;
  if (++refusals_ >= options_.hosts.size() && !may_wait) {
    if (events_.on_refused) events_.on_refused(error);
    return;
  }
  // One that waits for a name is refused again and again.
  if (refusals_ <= options_.hosts.size()) log::warn(error.to_string());
  is_refused_ = true;
}

ProcId ControllerGateway::self() const {
  return confirmed_self().value_or(ProcId(options_.hosts[at_], ProcName(name_)));
}

std::optional<ProcId> ControllerGateway::confirmed_self() const {
  return bus_ != nullptr ? bus_->self() : std::nullopt;
}

bool ControllerGateway::should_move(Reactor::Time now) const {
  return is_refused_ || (down_since_ && now - *down_since_ >= options_.limit);
}

void ControllerGateway::move() {
  // The only broker may take this one later, when the name is free.
  const bool is_asked_again = is_refused_ && options_.waits_for_name;
  if (options_.hosts.size() == 1 && !is_asked_again) return;
  bus_->close("going to another host");
  bus_.reset();
  at_ = (at_ + 1) % options_.hosts.size();
  open();
}

}  // namespace meshbus
