#include "agent/proc/runtime/agent_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// "10 s", "0.5 s"
std::string in_seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (const auto rest = time.count() % 1000; rest != 0) {
    text += "." + std::to_string(1000 + rest).substr(1);
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text + " s";
}

}  // namespace

AgentLink::AgentLink(Reactor& reactor, const Bootstrap& bootstrap, Events events)
    : reactor_(reactor),
      bootstrap_(bootstrap),
      events_(std::move(events)),
      agent_(host_service(bootstrap.host)),
      away_limit_(bootstrap.away),
      away_(bootstrap.away, reactor.now()) {}

AgentLink::~AgentLink() {
  reactor_.cancel(tick_timer_);
}

void AgentLink::add_handlers(Dispatcher& handlers) {
  handlers.on<wire::StopAndExit>(Role::host, std::bind_front(&AgentLink::on_stop_and_exit, this))
      .on<wire::Exit>(Role::host, std::bind_front(&AgentLink::on_exit, this))
      .on<wire::WorldChanged>(Role::host, std::bind_front(&AgentLink::on_world_changed, this));
}

bool AgentLink::is_from_agent(const Request& request) {
  if (request.envelope.source_proc() == agent_.key()) return true;
  bus_->refuse(request,
               Error(ErrorCode::unauthorised, "only " + agent_.to_string() + " gives orders to " +
                                                  bootstrap_.proc.to_string()));
  return false;
}

void AgentLink::on_stop_and_exit(const Request& request, const wire::StopAndExit& message) {
  if (!is_from_agent(request)) return;
  bus_->answer(request, wire::AckT());
  events_.on_stop(message.code(), std::chrono::milliseconds(message.grace_ms()),
                  text_of(message.reason()));
}

void AgentLink::on_exit(const Request& request, const wire::Exit& message) {
  if (is_from_agent(request)) events_.on_exit(message.code());
}

void AgentLink::on_world_changed(const Request& request, const wire::WorldChanged& message) {
  if (!is_from_agent(request)) return;
  const auto layout = from_wire(*message.layout());
  if (!layout) return bus_->refuse(request, layout.error().within("WorldChanged"));
  bus_->answer(request, wire::AckT());
  events_.on_world(*layout);
}

void AgentLink::start(Bus& bus) {
  bus_ = &bus;
  arm_tick(Reactor::Duration::zero());
}

void AgentLink::on_up() {
  hello_at_ = std::chrono::system_clock::now();
  say_ready();
}

void AgentLink::on_down() {
  away_.on_silence(reactor_.now());
  arm_tick(Reactor::Duration::zero());
}

void AgentLink::set_away_limit(std::chrono::milliseconds limit) {
  away_limit_ = limit;
  away_.set_limit(limit);
  if (bus_ != nullptr && away_.is_away()) arm_tick(std::chrono::milliseconds(0));
}

void AgentLink::say_ready() {
  wire::ProcReadyT ready;
  ready.proc = bootstrap_.proc.to_string();
  ready.incarnation = bootstrap_.incarnation;
  ready.pid = static_cast<std::uint32_t>(::getpid());
  const auto nanoseconds = [](std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  ready.connected_ns = nanoseconds(bus_->connected_at());
  ready.hello_ns = nanoseconds(hello_at_);
  away_.on_silence(reactor_.now());
  bus_->request(
      Destination::to(agent_), std::move(ready), away_limit_,
      [this](const Result<ControlMessage>& answer) {
        if (!answer)
          return log::info("the host agent does not take ProcReady: " + answer.error().to_string());
        away_.on_answer();
        is_ready_ = true;
        events_.on_ready();
      });
}

void AgentLink::ask() {
  if (!bus_->is_up()) return;  // on_up() will
  if (!is_ready_) return say_ready();
  wire::ProcHeartbeatT heartbeat;
  heartbeat.proc = bootstrap_.proc.to_string();
  if (auto stuck = events_.find_stuck()) {
    heartbeat.handler = std::move(stuck->name);
    heartbeat.busy_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(stuck->busy).count());
    heartbeat.waiting = stuck->waiting;
  }
  bus_->request(Destination::to(agent_), std::move(heartbeat), away_limit_,
                [this](const Result<ControlMessage>& answer) {
                  if (answer) away_.on_answer();
                });
}

void AgentLink::arm_tick(Reactor::Duration delay) {
  reactor_.cancel(tick_timer_);
  tick_due_ = reactor_.now() + delay;
  tick_timer_ = reactor_.at(tick_due_, [this] { on_tick(); });
}

void AgentLink::on_tick() {
  const auto now = reactor_.now();
  if (away_.is_over(now, tick_due_)) {
    return events_.on_away(std::string(bus_->is_up() ? "the host agent" : "the broker") +
                           " stayed away for " + in_seconds(away_limit_) + "; ending");
  }
  if (!away_.is_away() && now < next_heartbeat_) return arm_tick(next_heartbeat_ - now);
  next_heartbeat_ = now + bootstrap_.heartbeat;
  away_.on_silence(now);
  ask();
  // While nobody answers, ask more often: its return must be noticed before the end.
  const Reactor::Duration probe =
      std::max<Reactor::Duration>(away_limit_ / 10, std::chrono::milliseconds(5));
  const Reactor::Duration left =
      std::max<Reactor::Duration>(away_.end() - now, std::chrono::milliseconds(1));
  arm_tick(std::min({probe, Reactor::Duration(bootstrap_.heartbeat), left}));
}

}  // namespace meshbus::mesh_proc
