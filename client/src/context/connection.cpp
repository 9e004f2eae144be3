#include "client/src/context/connection.h"

#include <utility>

#include "client/src/base/accumulating.h"
#include "client/src/base/time_left.h"
#include "client/src/context/context_core.h"
#include "common/wire/frame.h"
#include "wire/frame_generated.h"

namespace meshbus {
Connection::Connection(ContextCore& core, HostAddr gateway)
    : core_(core),
      gateway_(core.reactor(), std::move(gateway), make_options(), make_events()),
      updates_(gateway_, hosts_),
      upkeep_(core.reactor(), core.config(), gateway_, hosts_, updates_),
      calls_(core, gateway_, hosts_, updates_) {
  hosts_.add({gateway_.host()});
  gateway_.open();
  upkeep_.start();
}

Connection::Connection(ContextCore& core)
    : core_(core),
      gateway_(core.reactor(), HostAddr::local(0), {}, {}),
      updates_(gateway_, hosts_),
      upkeep_(core.reactor(), core.config(), gateway_, hosts_, updates_),
      calls_(core, gateway_, hosts_, updates_) {
  gateway_.close("there is no host");
}

Connection::~Connection() {
  close("the launcher ends");
}

Gateway::Options Connection::make_options() {
  return {.body_limit = core_.config().bytes(keys::message_limit),
          .reach = [this](const HostAddr& host, Session::Options& session) {
            core_.reach(host, session);
          }};
}

Gateway::Events Connection::make_events() {
  Gateway::Events events;
  events.on_left = [this] { core_.sender().forget_routes(); };
  events.make_handlers = [this] {
    Dispatcher handlers;
    updates_.handle(handlers);
    return handlers;
  };
  events.on_up_again = [this] { updates_.resync_all(); };
  events.on_refused = [this](const std::string& reason) { updates_.on_refused(reason); };
  events.on_broker_left = [this] { upkeep_.leave(gateway_.host()); };
  events.on_other_host = [this] { close("another host answers there"); };
  events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) { on_data(envelope, header, body); };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    // Control messages have senders of their own that ask again.
    if (envelope.kind() != wire::Kind::message) return;
    core_.returned().add({.to = updates_.find_proc(envelope.destination_proc()),
                          .key = envelope.destination_proc(),
                          .port = envelope.port(),
                          .is_cast = (envelope.flags() & kFlagCast) != 0,
                          .error = error},
                         core_.reactor().now());
  };
  return events;
}

void Connection::close(const std::string& reason) {
  if (gateway_.bus() == nullptr) return;
  upkeep_.stop();
  gateway_.close(reason);
  updates_.close(reason);
}

void Connection::on_host_ended(const HostAddr& host, const std::string& reason) {
  if (!upkeep_.on_host_ended(host, reason)) return;
  for (const auto& [ticket, running] : accumulating_) running->on_host_ended(host, reason);
  upkeep_.leave(host);
}

Result<void> Connection::wait_up(std::chrono::milliseconds deadline) const {
  return gateway_.status().wait_up(Calls::clamp(deadline));
}

Connection::Answer Connection::ask_with(Asker asker, std::chrono::milliseconds deadline,
                                        int losses) {
  const auto asked = std::make_shared<Asked>();
  asked->asker = std::move(asker);
  asked->end = std::chrono::steady_clock::now() + deadline;
  asked->losses = losses;
  core_.post([this, asked] { send(asked); });
  return asked->answer.get_future();
}

void Connection::send(const std::shared_ptr<Asked>& asked) {
  auto* const bus = gateway_.bus();
  if (bus == nullptr) return asked->answer.set_value(fail(gateway_.closed_error()));
  asked->asker(*bus, left_until(asked->end), [this, asked](Result<ControlMessage> answer) {
    const bool has_time = gateway_.bus() != nullptr && left_until(asked->end).count() > 0;
    const auto code = answer ? ErrorCode::none : answer.error().code();
    if (code == ErrorCode::link_lost && has_time &&
        std::exchange(asked->can_meet_later_life, false))
      return send(asked);
    if (code == ErrorCode::fate_unknown && has_time && asked->losses > 0) {
      --asked->losses;
      // Not from within the end of the bus that it was asked on.
      return core_.post([this, life = std::weak_ptr(life_), asked] {
        if (!life.expired()) return send(asked);
        asked->answer.set_value(fail(ErrorCode::fate_unknown, "this side left the bus"));
      });
    }
    if (!answer) answer = fail(gateway_.status().explain(answer.error()));
    asked->answer.set_value(std::move(answer));
  });
}

}  // namespace meshbus
