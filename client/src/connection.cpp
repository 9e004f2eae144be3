#include "client/src/connection.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/src/accumulating.h"
#include "client/src/context_core.h"
#include "common/wire/frame.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Bus counts deadlines in 32 bits of milliseconds.
constexpr std::chrono::milliseconds kLongestWait{std::chrono::hours(24 * 20)};

}  // namespace

Connection::Connection(ContextCore& core, HostAddr gateway)
    : core_(core),
      gateway_(core, std::move(gateway), make_events()),
      updates_(gateway_, hosts_),
      upkeep_(core, gateway_, hosts_, updates_) {
  hosts_.add({gateway_.host()});
  gateway_.open();
  upkeep_.start();
}

Connection::Connection(ContextCore& core)
    : core_(core),
      gateway_(core, HostAddr::local(0), {}),
      updates_(gateway_, hosts_),
      upkeep_(core, gateway_, hosts_, updates_) {
  gateway_.close("there is no host");
}

Connection::~Connection() {
  close("the launcher ends");
}

Gateway::Events Connection::make_events() {
  Gateway::Events events;
  events.make_handlers = [this] {
    Dispatcher handlers;
    updates_.handle(handlers);
    return handlers;
  };
  events.on_up_again = [this] { updates_.resync_all(); };
  events.on_refused = [this](const std::string& reason) { updates_.lose_all(reason); };
  events.on_other_host = [this] { close("another host answers there"); };
  events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) { on_data(envelope, header, body); };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    // Control messages have senders of their own that ask again.
    if (envelope.kind() != wire::Kind::message) return;
    core_.returned().add({.to = updates_.find_proc(envelope.destination_proc()),
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

std::chrono::milliseconds Connection::clamp(std::chrono::milliseconds deadline) {
  return std::clamp(deadline, std::chrono::milliseconds(1), kLongestWait);
}

Result<void> Connection::wait_up(std::chrono::milliseconds deadline) const {
  return gateway_.status().wait_up(clamp(deadline));
}

Connection::Answer Connection::ask_with(Asker asker) {
  auto promise = std::make_shared<std::promise<Result<ControlMessage>>>();
  auto future = promise->get_future();
  core_.post([this, asker = std::move(asker), promise] {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) {
      promise->set_value(fail(gateway_.closed_error()));
      return;
    }
    asker(*bus, [this, promise](Result<ControlMessage> answer) {
      if (!answer) answer = fail(gateway_.status().explain(answer.error()));
      promise->set_value(std::move(answer));
    });
  });
  return future;
}

Result<std::string> Connection::call(const ProcId& proc, std::uint32_t port, std::string_view body, std::chrono::milliseconds deadline) {
  auto promise = std::make_shared<std::promise<Result<std::string>>>();
  auto future = promise->get_future();
  core_.post([this, promise, host = proc.host(), to = Destination::to(proc), port, body = std::string(body), limit = clamp(deadline)] {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) {
      promise->set_value(fail(gateway_.closed_error()));
      return;
    }
    if (auto loss = hosts_.loss_of(host)) {
      promise->set_value(fail(std::move(*loss)));
      return;
    }
    bus->call(to, port, body, limit, [this, promise](Result<std::string> answer) {
      if (!answer) answer = fail(gateway_.status().explain(answer.error()));
      promise->set_value(std::move(answer));
    });
  });
  auto answer = future.get();
  if (!answer) return fail(answer.error().within("call to " + proc.to_string() + ", port " + std::to_string(port)));
  return answer;
}

Result<void> Connection::send(const ProcId& proc, std::uint32_t port, std::string_view body) {
  return send_with(proc, port, [&](Bus& bus) { return bus.send(Destination::to(proc), port, body); });
}

Result<void> Connection::send(const ProcId& proc, std::uint32_t port, const SharedBody& body) {
  return send_with(proc, port, [&](Bus& bus) { return bus.send(Destination::to(proc), port, body); });
}

Result<void> Connection::send_with(const ProcId& proc, std::uint32_t port, const std::function<Result<void>(Bus&)>& send) {
  auto sent = core_.run([&]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    return send(*bus);
  });
  if (!sent) return fail(sent.error().within("send to " + proc.to_string() + ", port " + std::to_string(port)));
  return sent;
}

Result<void> Connection::cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body) {
  auto sent = core_.run([&]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    const auto plan = plans_.get(to);
    if (!plan) return fail(plan.error());
    return bus->cast(**plan, port, body);
  });
  if (!sent) return fail(sent.error().within("cast to " + to.mesh().to_string() + ", port " + std::to_string(port)));
  return sent;
}

Result<CastAnswers::Answers> Connection::call_all(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                                  std::chrono::milliseconds deadline) {
  auto answers = std::make_shared<CastAnswers>(to.num_ranks());
  auto future = answers->get_future();
  auto asked = core_.run([&, answers = std::move(answers)]() -> Result<void> {
    auto* const bus = gateway_.bus();
    if (bus == nullptr) return fail(gateway_.closed_error());
    const auto plan = plans_.get(to);
    if (!plan) return fail(plan.error());
    // Ranks on hosts that are proved lost answer nothing: theirs are known before the call.
    std::map<std::uint64_t, Error> losses;
    const auto is_lost = [this](const HostAddr& host) { return hosts_.loss_of(host).has_value(); };
    if (std::any_of(to.hosts().begin(), to.hosts().end(), is_lost)) {
      for (std::uint64_t ordinal = 0; ordinal < to.num_ranks(); ++ordinal) {
        const auto proc = to.proc_at(ordinal);
        if (auto loss = proc ? hosts_.loss_of(proc->host()) : std::nullopt) losses.emplace(ordinal, std::move(*loss));
      }
    }
    bus->cast_call(*plan, port, body, clamp(deadline), [this, answers, losses](std::uint64_t ordinal, Result<std::string> answer) {
      if (losses.contains(ordinal)) return;
      if (!answer) answer = fail(gateway_.status().explain(answer.error()));
      answers->fill(ordinal, std::move(answer));
    });
    for (auto& [ordinal, loss] : losses) answers->fill(ordinal, fail(std::move(loss)));
    return {};
  });
  if (!asked) return fail(asked.error().within("call to " + to.mesh().to_string() + ", port " + std::to_string(port)));
  return future.get();
}

}  // namespace meshbus
