#include "agent/proc/runtime/runtime.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"

namespace meshbus::mesh_proc {
namespace {

/// More than ProcSender::kSendMost, so that the bus never refuses what send() lets in.
constexpr Outbox::Limits kOutboxLimits{.bytes = 64 * 1024 * 1024, .count = 1'000'000};
/// Messages that wait for the handlers.
constexpr WorkQueue::Limits kWorkLimits{.bytes = 64 * 1024 * 1024, .count = 262'144};
/// For the end of a process that was not asked to stop: how long its last handlers and messages may
/// take.
constexpr std::chrono::seconds kEndLimit{10};
/// How long messages may take to leave while the broker does not take them.
constexpr std::chrono::seconds kFlushLimit{2};
/// What of a grace is kept to find out which actors are stuck, and to say so.
constexpr std::chrono::milliseconds kActorReserve{1000};
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
    : kind_(kind),
      on_cut_(std::move(on_cut)),
      bootstrap_(std::move(bootstrap)),
      program_(std::move(program)),
      rank_(bootstrap_.mesh.ordinal_of(bootstrap_.rank).value_or(bootstrap_.rank)),
      settings_(
          bootstrap_, [](const char* name) -> const char* { return std::getenv(name); },
          kind_ == Kind::process),
      has_worker_(!program_.handlers_.empty() || program_.on_stop_ || program_.on_undelivered_ ||
                  !program_.main_),
      proc_(*this),
      sender_(reactor_, bootstrap_, is_cut_, [this](const ProcId& to) { return check_caller(to); }),
      agent_(reactor_, bootstrap_,
             {.on_ready = [this] { on_ready(); },
              .on_away = [this](const std::string& line) { end_now(kExitAway, line); }}),
      work_(kWorkLimits),
      actors_(reactor_, proc_, bootstrap_.proc, program_.actor_types_, program_.actor_threads_,
              make_outside()),
      intake_({.bootstrap = bootstrap_,
               .handlers = program_.handlers_,
               .on_undelivered = program_.on_undelivered_,
               .proc = proc_,
               .reactor = reactor_,
               .work = work_,
               .actors = actors_,
               .outgoing = sender_.outgoing(),
               .ranks = ranks_,
               .is_cut = is_cut_},
              rank_),
      stop_is_watched_(program_.on_stop_ || !program_.main_) {
  if (kind_ == Kind::process) signals_.emplace();
  apply_settings();
}

Result<void> Runtime::check_caller(const ProcId& to) const {
  if (auto allowed = sender_.check_fork(); !allowed) return allowed;
  if (is_reactor_thread_)
    return fail(ErrorCode::would_block, "the library's own thread cannot wait");
  if (actors_.is_here())
    return fail(
        ErrorCode::would_block,
        "an actor that waits keeps its thread from the others; use ActorContext::call_async");
  if (work_.is_here() && to == bootstrap_.proc)
    return fail(ErrorCode::would_block, "a handler that calls its own proc would wait for itself");
  return {};
}

void Runtime::apply_settings() {
  agent_.set_away_limit(settings_.away());
  if (bus_ != nullptr) bus_->set_body_limit(settings_.message_limit());
  if (const auto level = settings_.level()) log::set_least(*level);
}

Result<void> Runtime::check(const ProcProgram& program) {
  if (program.mistake_.empty()) return {};
  return fail(ErrorCode::configuration_error, program.mistake_);
}

int Runtime::run() {
  if (has_worker_) work_.start();
  actors_.start_threads();
  // The hidden thread must not be the one that a signal of the program is delivered to.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run_reactor(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_ || stops_.is_asked(); });
  if (!program_.main_) {
    changed_.wait(lock, [this] { return stops_.is_drained() || is_cut_; });
    exit_code_ = stops_.exit_code(exit_code_);
  } else if (!stops_.is_asked()) {
    lock.unlock();
    const int code = program_.main_(proc_);
    lock.lock();
    exit_code_ = stops_.exit_code(code);
  } else {
    exit_code_ = stops_.exit_code(exit_code_);
  }
  return exit_code_;
}

void Runtime::shutdown(int code) {
  // A child of fork() that exits has no part in this; its parent goes on.
  if (sender_.is_forked() || is_reactor_thread_) return;
  if (!thread_.joinable()) {
    // run() could not make it, and has thrown.
    if (kind_ == Kind::pseudo) work_.finish();
    return;
  }
  reactor_.post([this] {
    {
      const std::lock_guard lock(mutex_);
      stops_.begin_exit();
    }
    limit_life(reactor_.now() + kEndLimit);
  });
  if (has_worker_) work_.finish();
  const bool is_actor = actors_.is_here();  // which cannot wait for its own end
  if (!is_actor) {
    std::promise<void> stopped;
    reactor_.post([this, &stopped] {
      stop_actors("its proc ends", last_moment(), [&stopped] { stopped.set_value(); });
    });
    stopped.get_future().wait();
  }
  const bool is_quiet = is_actor || actors_.finish_threads();
  reactor_.post([this] {
    leave(reactor_.now() + kFlushLimit, [this] {
      is_stopped_ = true;
      reactor_.stop();
    });
  });
  thread_.join();
  sender_.outgoing().stop();
  if (is_quiet) return;
  if (kind_ == Kind::pseudo) {
    while (!actors_.finish_threads()) {
    }
    return;
  }
  // An actor that is stuck goes on using what exit() is about to destroy.
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

void Runtime::stop_actors(const std::string& reason, Reactor::Time end,
                          std::function<void()> done) {
  const auto left = std::max<Reactor::Duration>(end - reactor_.now(), Reactor::Duration::zero());
  actors_.stop_all(
      reason,
      reactor_.now() + left -
          std::min<Reactor::Duration>(left, std::max<Reactor::Duration>(left / 4, kActorReserve)),
      std::move(done));
}

Reactor::Time Runtime::last_moment() {
  const std::lock_guard lock(mutex_);
  return stops_.end();
}

void Runtime::note_drained() {
  const std::lock_guard lock(mutex_);
  stops_.part_done();
  changed_.notify_all();
}

ActorSystem::Outside Runtime::make_outside() {
  return {.has_handler = [this](std::uint32_t port) { return program_.handlers_.contains(port); },
          .send =
              [this](const ProcId& to, std::uint32_t port, std::string_view body) {
                return sender_.send(to, port, body, nullptr, std::chrono::milliseconds(0));
              },
          .visit =
              [this](const std::function<void()>& task) {
                // Nothing of it can fail.
                (void)sender_.outgoing().use([&](Bus&) -> Result<void> {
                  task();
                  return {};
                });
              },
          .call =
              [this](const ProcId& to, std::uint32_t port, std::string_view body,
                     std::chrono::milliseconds deadline, Bus::CallAnswer answer) {
                sender_.call(to, port, body, deadline, std::move(answer));
              }};
}

void Runtime::run_reactor() {
  is_reactor_thread_ = true;
  ::pthread_setname_np(::pthread_self(), "meshbus");
  bus_ = std::make_unique<Bus>(reactor_, context_, session_options(bootstrap_), make_handlers(),
                               make_events());
  bus_->set_body_limit(settings_.message_limit());
  intake_.attach(*bus_);
  reactor_.add_turn_end([this] { intake_.close_run(); });
  sender_.outgoing().attach(*bus_);
  if (signals_) {
    reactor_.watch(signals_->fd(), EPOLLIN, [this](std::uint32_t) {
      if (const auto number = signals_->take()) on_signal(*number);
    });
  }
  actors_.attach(*bus_);
  agent_.start(*bus_);
  work_.join_loop();
  const auto wake = [this] { reactor_.wake(); };
  const auto help_with_handlers = [this] {
    turn_meanwhile([this, before = actors_.pool().batches()] {
      return work_.is_wanted() || actors_.pool().batches() != before;
    });
  };
  const auto help_with_actors = [this] {
    turn_meanwhile([this, before = work_.pushes()] {
      return actors_.pool().is_wanted() || work_.pushes() != before;
    });
  };
  if (has_worker_) work_.share_loop(help_with_handlers, wake);
  actors_.pool().share_loop(help_with_actors, wake);
  while (!is_stopped_) {
    reactor_.run_until([this] { return work_.is_missed() || actors_.pool().is_missed(); });
    work_.promote();
    actors_.pool().promote();
  }
  is_helped_.wait(true);
  {
    const auto visit = reactor_.visit();
    actors_.detach();
  }
  // The bus is closed, and stays: threads that still run may send.
  context_.close();  // waits for what still leaves, as long as the socket lingers
}

void Runtime::turn_meanwhile(const std::function<bool()>& is_enough) {
  if (is_helped_.exchange(true)) return reactor_.wake();  // for what this one has posted
  // A signal of the program must not interrupt what moves bytes.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  is_reactor_thread_ = true;
  if (!is_stopped_) reactor_.run_until(is_enough);
  is_reactor_thread_ = false;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  is_helped_ = false;
  is_helped_.notify_all();
}

Dispatcher Runtime::make_handlers() {
  Dispatcher handlers;
  handlers
      .on<wire::StopAndExit>(Role::host,
                             [this](const Request& request, const wire::StopAndExit& message) {
                               on_stop_and_exit(request, message);
                             })
      .on<wire::Exit>(Role::host, [this](const Request& request, const wire::Exit& message) {
        if (is_from_agent(request)) quit(message.code(), "its host's agent wants it to");
      });
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
  events.on_refused = [this](const Error& error) { on_refused(error); };
  events.on_delivery = [this](const Bus::Delivery& delivery) {
    if (delivery.envelope.kind() == wire::Kind::call && delivery.envelope.port() == kSettingsPort)
      return on_settings(delivery.envelope, delivery.header, delivery.body);
    intake_.on_delivery(delivery);
  };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    intake_.on_undelivered(envelope, error);
  };
  events.when_taken = [this](std::function<void()> then) { intake_.when_taken(std::move(then)); };
  return events;
}

void Runtime::on_settings(const wire::Envelope& envelope, const wire::CallHeader& header,
                          Bytes body) {
  const auto changes = decode_settings_call(body);
  if (!changes) return bus_->fail_call(envelope, header, changes.error());
  if (!changes->empty()) {
    if (envelope.role() < Role::operate)
      return bus_->fail_call(
          envelope, header,
          Error(ErrorCode::unauthorised,
                "only a sender that may start and stop procs may change their settings"));
    if (const auto changed = settings_.change(*changes); !changed)
      return bus_->fail_call(envelope, header, changed.error());
    apply_settings();
  }
  bus_->answer_call(envelope, header, encode_settings(settings_.list()));
}

void Runtime::on_ready() {
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

void Runtime::on_refused(const Error& error) {
  end_now(kExitRefused, error.detail() + " (" + std::string(to_string(error.code())) + "); ending");
}

bool Runtime::is_from_agent(const Request& request) {
  if (request.envelope.source_proc() == agent_.agent().key()) return true;
  bus_->refuse(request,
               Error(ErrorCode::unauthorised, "only " + agent_.agent().to_string() + " may end " +
                                                  bootstrap_.proc.to_string()));
  return false;
}

void Runtime::on_stop_and_exit(const Request& request, const wire::StopAndExit& message) {
  if (!is_from_agent(request)) return;
  bus_->answer(request, wire::AckT());
  begin_stop(message.code(), std::chrono::milliseconds(message.grace_ms()),
             text_of(message.reason()));
}

void Runtime::limit_life(Reactor::Time end) {
  {
    const std::lock_guard lock(mutex_);
    if (!stops_.limit(end)) return;
  }
  reactor_.cancel(grace_timer_);
  grace_timer_ = reactor_.at(end, [this] { on_grace_over(); });
}

void Runtime::on_signal(int number) {
  begin_stop(128 + number, std::min(settings_.grace(), kLongest),
             std::string("signal ") + ::strsignal(number));
}

void Runtime::begin_stop(int code, std::chrono::milliseconds grace, const std::string& reason) {
  if (is_cut_) return;
  const auto end = reactor_.now() + grace;
  limit_life(end);
  {
    const std::lock_guard lock(mutex_);
    if (!stops_.begin({code, reason})) return;
    exit_code_ = code;
    stopping_ = true;
    changed_.notify_all();
  }
  intake_.close_run();
  if (program_.on_stop_) {
    work_.push_first([this, reason] {
      if (is_cut_) return;
      try {
        program_.on_stop_(proc_, reason);
      } catch (const std::exception& error) {
        log::warn(std::string("on_stop: ") + error.what());
      }
    });
  }
  if (!program_.main_) {
    work_.push_last([this] { note_drained(); });
    stop_actors("its proc stops: " + reason, end, [this] { note_drained(); });
  } else if (!stop_is_watched_) {
    // main() will not notice; see ProcProgram::on_stop. What it has sent leaves first.
    stop_actors("its proc stops: " + reason, end, [this, end] {
      leave(std::min<Reactor::Time>(end, reactor_.now() + kFlushLimit), [this] {
        if (kind_ == Kind::pseudo)
          return cut_off(exit_code_, "its main() does not ask whether it is to stop");
        context_.close();
        ::_exit(exit_code_);
      });
    });
  }
}

void Runtime::on_grace_over() {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    why = stops_.describe_limit();
  }
  end_now(exit_code_, why + "; ending");
}

void Runtime::leave(Reactor::Time give_up, std::function<void()> then) {
  if (!is_cut_ && bus_->queued_bytes() > 0 && reactor_.now() < give_up) {
    reactor_.after(std::chrono::milliseconds(1),
                   [this, give_up, then = std::move(then)] { leave(give_up, then); });
    return;
  }
  if (!is_cut_) intake_.acknowledge();
  bus_->close("the process ends", kFlushLimit);
  then();
}

void Runtime::quit(int code, const std::string& why) {
  if (kind_ == Kind::process) ::_exit(code);
  // Not from within what the bus has to say.
  reactor_.post([this, code, why] { cut_off(code, why); });
}

void Runtime::end_now(int code, const std::string& line) {
  if (is_cut_) return;
  log::write_line(STDERR_FILENO, "meshbus: " + bootstrap_.proc.to_string() + ": " + line);
  quit(code, line);
}

void Runtime::stop(int signal) {
  reactor_.post([this, signal] { on_signal(signal); });
}

void Runtime::cut(const std::string& why) {
  quit(128 + SIGKILL, why);
}

void Runtime::cut_off(int code, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!stops_.cut({code, why})) return;
    is_cut_ = true;
    exit_code_ = code;
    stopping_ = true;
    changed_.notify_all();
  }
  bus_->close(why, std::chrono::milliseconds(0));
  stop_actors("its proc has ended: " + why, reactor_.now(), [] {});
  if (on_cut_) on_cut_();
}

bool Runtime::stop_requested() noexcept {
  stop_is_watched_ = true;
  return stopping_;
}

bool Runtime::wait_for_stop(std::chrono::milliseconds at_most) {
  stop_is_watched_ = true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(at_most, kLongest), [this] { return stops_.is_asked(); });
}

}  // namespace meshbus::mesh_proc
