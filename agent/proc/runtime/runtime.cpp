#include "agent/proc/runtime/runtime.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <future>
#include <iostream>
#include <utility>

#include "common/base/log.h"
#include "wire/bus_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// More than ProcSender::kSendMost, so that the bus never refuses what send() lets in.
constexpr Outbox::Limits kOutboxLimits{.bytes = 64 * 1024 * 1024, .count = 1'000'000};
/// Messages that wait for the handlers.
constexpr WorkQueue::Limits kWorkLimits{.bytes = 64 * 1024 * 1024, .count = 262'144};
constexpr int kExitAway = 75;     // EX_TEMPFAIL
constexpr int kExitRefused = 77;  // EX_NOPERM

Session::Options session_options(const Bootstrap& bootstrap) {
  Session::Options options;
  options.endpoint = bootstrap.broker;
  options.hello.peer = bootstrap.proc.to_string();
  options.hello.kind = wire::PeerKind::proc;
  options.hello.incarnation = bootstrap.incarnation;
  options.hello.token = bootstrap.token;
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  options.limits = kOutboxLimits;
  return options;
}

}  // namespace

Runtime::Runtime(Bootstrap bootstrap, ProcProgram program, Kind kind, std::function<void()> on_cut)
    : bootstrap_(std::move(bootstrap)),
      program_(std::move(program)),
      proc_(*this),
      world_(bootstrap_.mesh, bootstrap_.revision, bootstrap_.proc, bootstrap_.rank),
      life_(program_.on_stop_ || !program_.main_),
      sender_(loop_.reactor(), bootstrap_, world_, life_.cut_flag(),
              [this](const ProcId& to) { return check_caller(to); }),
      actor_sends_(loop_.reactor(), sender_, bootstrap_.proc.host(),
                   [this](const wire::Envelope& envelope, const Error& error) {
                     intake_.on_undelivered(envelope, error);
                   }),
      ranks_(world_, bootstrap_.rank),
      agent_(loop_.reactor(), bootstrap_,
             {.on_ready = [this] { life_.set_ready(); },
              .on_away = [this](const std::string& line) { ending_.end_now(kExitAway, line); },
              .on_stop = [this](int code, std::chrono::milliseconds grace,
                                const std::string& why) { ending_.begin_stop(code, grace, why); },
              .on_exit = [this](int code) { ending_.quit(code, "its host's agent wants it to"); },
              .on_world =
                  [this](const MeshLayout& layout) {
                    if (world_.update(layout)) intake_.on_world(world_.mesh());
                  },
              .find_stuck = [this] { return find_stuck(); }}),
      settings_(bootstrap_, kind == Kind::process, agent_, program_.settings_,
                [this](ProgramSettings& settings) { intake_.on_settings(settings); }),
      work_(kWorkLimits),
      actors_(loop_.reactor(), proc_, bootstrap_.proc, program_.actor_types_,
              program_.actor_threads_, make_outside()),
      intake_({.bootstrap = bootstrap_,
               .handlers = program_.handlers_,
               .on_undelivered = program_.on_undelivered_,
               .on_setting = program_.on_setting_,
               .on_world = program_.on_world_,
               .proc = proc_,
               .reactor = loop_.reactor(),
               .work = work_,
               .actors = actors_,
               .outgoing = sender_.outgoing(),
               .ranks = ranks_,
               .is_cut = life_.cut_flag()}),
      ending_({.bootstrap = bootstrap_,
               .on_stop = program_.on_stop_,
               .has_main = program_.main_ != nullptr,
               .leaves_signals = leaves_signals(program_),
               .proc = proc_,
               .loop = loop_,
               .life = life_,
               .work = work_,
               .actors = actors_,
               .intake = intake_,
               .settings = settings_,
               .actor_sends = actor_sends_},
              kind == Kind::process, std::move(on_cut)) {}

Result<void> Runtime::check_caller(const ProcId& to) const {
  if (auto allowed = sender_.check_fork(); !allowed) return allowed;
  if (SharedLoop::is_here())
    return fail(ErrorCode::would_block, "the library's own thread cannot wait");
  if (actors_.is_here())
    return fail(
        ErrorCode::would_block,
        "an actor that waits keeps its thread from the others; use ActorContext::call_async");
  if (work_.is_here() && to == bootstrap_.proc)
    return fail(ErrorCode::would_block, "a handler that calls its own proc would wait for itself");
  return {};
}

std::optional<BusyHandler> Runtime::find_stuck() {
  const auto limit = settings_.handler_stuck();
  if (limit.count() == 0) return std::nullopt;
  const auto now = loop_.reactor().now();
  auto port = intake_.find_busy(now, limit);
  auto actor = actors_.find_busy(now, limit);
  return port && (!actor || port->busy >= actor->busy) ? port : actor;
}

Result<void> Runtime::check(const ProcProgram& program) {
  if (program.mistake_.empty()) return {};
  return fail(ErrorCode::configuration_error, program.mistake_);
}

Result<void> Runtime::check(const ProcProgram& program, const Bootstrap& bootstrap) {
  return ProgramSettings::check(program.settings_, bootstrap.program_settings);
}

bool Runtime::has_worker() const noexcept {
  return !program_.handlers_.empty() || program_.on_stop_ || program_.on_undelivered_ ||
         program_.on_setting_ || program_.on_world_ || !program_.main_;
}

bool Runtime::start() {
  if (has_worker()) work_.start();
  actors_.start_threads();
  loop_.start([this] { run_reactor(); });
  return life_.wait_until_ready();
}

int Runtime::run() {
  const bool is_ready = start();
  if (!program_.main_) {
    life_.wait_until_drained();
  } else if (is_ready) {
    return life_.end_main(program_.main_(proc_));
  }
  return life_.end_main(life_.exit_code());
}

std::optional<StopRequest> Runtime::stop_request() {
  if (!life_.stop_requested()) return std::nullopt;
  auto stop = life_.stop();
  return StopRequest{stop.code, std::move(stop.reason), life_.last_moment()};
}

void Runtime::shutdown(int code) {
  // A child of fork() that exits has no part in this; its parent goes on.
  if (sender_.is_forked() || SharedLoop::is_here()) return;
  if (!loop_.is_started()) {
    // start() could not make it, and has thrown.
    if (!ending_.is_process()) work_.finish();
    return;
  }
  life_.end_main(code);  // by exit(), it may be
  Reactor& reactor = loop_.reactor();
  // A turn that has just told main() of a stop goes on to queue on_stop: that is to run.
  std::promise<void> begun;
  reactor.post([this, &begun] {
    ending_.begin_exit();
    begun.set_value();
  });
  begun.get_future().wait();
  if (has_worker()) work_.finish();
  const bool is_actor = actors_.is_here();  // which cannot wait for its own end
  if (!is_actor) {
    std::promise<void> stopped;
    reactor.post([this, &stopped] {
      ending_.stop_actors("its proc ends", life_.last_moment(),
                          [&stopped] { stopped.set_value(); });
    });
    stopped.get_future().wait();
  }
  const bool is_quiet = is_actor || actors_.finish_threads();
  reactor.post([this] { ending_.leave([this] { loop_.stop(); }); });
  loop_.join();
  sender_.outgoing().stop();
  if (is_quiet) return;
  if (!ending_.is_process()) {
    while (!actors_.finish_threads()) {
    }
    return;
  }
  // An actor that is stuck goes on using what exit() is about to destroy.
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

ActorSystem::Outside Runtime::make_outside() {
  return {.has_handler = [this](std::uint32_t port) { return program_.handlers_.contains(port); },
          .send = [this](const ProcId& to, std::uint32_t port,
                         const BodyParts& body) { return actor_sends_.send(to, port, body); },
          .visit =
              [this](const std::function<void()>& task) {
                // Nothing of it can fail.
                (void)sender_.outgoing().use([&](Bus&) -> Result<void> {
                  task();
                  return {};
                });
              },
          .call =
              [this](const ProcId& to, std::uint32_t port, const BodyParts& body,
                     std::chrono::milliseconds deadline, Bus::CallAnswer answer) {
                sender_.call(to, port, body, deadline, std::move(answer));
              }};
}

void Runtime::run_reactor() {
  Reactor& reactor = loop_.reactor();
  bus_ =
      std::make_unique<Bus>(reactor, session_options(bootstrap_), make_handlers(), make_events());
  settings_.attach(*bus_);
  intake_.attach(*bus_);
  reactor.add_turn_end([this] { intake_.close_run(); });
  sender_.outgoing().attach(*bus_);
  ending_.attach(*bus_);
  actors_.attach(*bus_);
  agent_.start(*bus_);
  loop_.turn(work_, has_worker(), actors_.pool());
  {
    const auto visit = reactor.visit();
    actors_.detach();
  }
  // The bus is closed, and stays: threads that still run may send.
}

Dispatcher Runtime::make_handlers() {
  Dispatcher handlers;
  agent_.add_handlers(handlers);
  actors_.add_handlers(handlers);
  return handlers;
}

Bus::Events Runtime::make_events() {
  Bus::Events events;
  events.on_up = [this](const wire::Welcome&) { agent_.on_up(); };
  events.on_down = [this](const std::string& reason) {
    log::info("lost the broker: " + reason);
    agent_.on_down();
  };
  events.on_refused = [this](const Error& error) {
    ending_.end_now(kExitRefused,
                    error.detail() + " (" + std::string(to_string(error.code())) + "); ending");
  };
  events.on_delivery = [this](const Bus::Delivery& delivery) {
    if (SettingsPort::is_for(delivery.envelope))
      return settings_.on_call(*bus_, delivery.envelope, delivery.header, delivery.body);
    intake_.on_delivery(delivery);
  };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    intake_.on_undelivered(envelope, error);
  };
  events.when_taken = [this](std::function<void()> then) { intake_.when_taken(std::move(then)); };
  events.backlog = [this] { return work_.bytes(); };
  return events;
}

void Runtime::stop(int signal) {
  loop_.reactor().post([this, signal] { ending_.on_signal(signal); });
}

void Runtime::cut(const std::string& why) {
  ending_.quit(128 + SIGKILL, why);
}

}  // namespace meshbus::mesh_proc
