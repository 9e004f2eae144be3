#include "agent/proc/runtime.h"

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

#include "common/quantity.h"
#include "common/wire_region.h"

namespace meshbus::mesh_proc {
namespace {

/// What a cast may bring: a message, less what says for whom it is (CastPlan::kMostRuns, and a region).
constexpr std::size_t kCastLimit = 960 * 1024;
/// What a program may have waiting to leave before send() waits. The bus's own limit is larger, so that it never refuses what we let in.
constexpr std::size_t kSendBytes = 16 * 1024 * 1024;
constexpr Outbox::Limits kOutboxLimits{.bytes = 4 * kSendBytes, .count = 1'000'000};
/// Messages that wait for the handlers.
constexpr WorkQueue::Limits kWorkLimits{.bytes = 64 * 1024 * 1024, .count = 262'144};
/// Messages that came back and wait for on_undelivered.
constexpr std::size_t kMostReturns = 65'536;
constexpr std::size_t kCallLimit = kBodyLimit - sizeof(wire::CallHeader);
/// For the end of a process that was not asked to stop: how long its last handlers and messages may take.
constexpr std::chrono::seconds kEndLimit{10};
/// How long messages may take to leave while the broker does not take them.
constexpr std::chrono::seconds kFlushLimit{2};
/// What of a grace is kept to find out which actors are stuck, and to say so.
constexpr std::chrono::milliseconds kActorReserve{1000};
/// What a caller's time is cut to, so that adding it to now cannot overflow.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
constexpr int kExitAway = 75;     // EX_TEMPFAIL
constexpr int kExitRefused = 77;  // EX_NOPERM

thread_local bool is_reactor_thread = false;

/// How long a proc that gets SIGTERM or SIGINT may take: the launcher's setting, if it sent one.
std::chrono::milliseconds grace_of(const Bootstrap& bootstrap) {
  for (const auto& [key, value] : bootstrap.config) {
    if (key != "terminate.grace") continue;
    if (const auto ms = parse_quantity(value, duration_units, "s")) return std::min(std::chrono::milliseconds(*ms), kLongest);
  }
  return std::chrono::seconds(10);
}

Session::Options session_options(const Bootstrap& bootstrap, pid_t pid) {
  Session::Options options;
  options.endpoint = bootstrap.broker;
  options.hello.peer = bootstrap.proc.to_string();
  options.hello.kind = wire::PeerKind::proc;
  options.hello.incarnation = bootstrap.incarnation;
  options.hello.token = bootstrap.token;
  options.hello.pid = static_cast<std::uint32_t>(pid);
  options.limits = kOutboxLimits;
  return options;
}

/// Fills a future exactly once: with the answer, or, when the bus is gone before there is one, with what that means.
class Answer {
 public:
  ~Answer() {
    if (!filled_) promise_.set_value(fail(ErrorCode::fate_unknown, "this proc is ending"));
  }
  std::future<Result<std::string>> get_future() { return promise_.get_future(); }
  void fill(Result<std::string> answer) {
    filled_ = true;
    promise_.set_value(std::move(answer));
  }

 private:
  std::promise<Result<std::string>> promise_;
  bool filled_ = false;
};

std::future<Result<std::string>> failed(const Error& error) {
  std::promise<Result<std::string>> promise;
  promise.set_value(fail(error));
  return promise.get_future();
}

}  // namespace

Runtime::Runtime(Bootstrap bootstrap, ProcProgram program)
    : bootstrap_(std::move(bootstrap)),
      program_(std::move(program)),
      pid_(::getpid()),
      rank_(bootstrap_.mesh.ordinal_of(bootstrap_.rank).value_or(bootstrap_.rank)),
      signal_grace_(grace_of(bootstrap_)),
      has_worker_(!program_.handlers_.empty() || program_.on_stop_ || program_.on_undelivered_ || !program_.main_),
      proc_(*this),
      agent_(reactor_, bootstrap_,
             {.on_ready = [this] { on_ready(); }, .on_away = [this](const std::string& line) { end_now(kExitAway, line); }}),
      work_(kWorkLimits),
      actors_(reactor_, proc_, bootstrap_.proc, program_.actor_types_, program_.actor_threads_, make_outside()),
      stop_is_watched_(program_.on_stop_ || !program_.main_) {}

void Runtime::run() {
  if (has_worker_) work_.start();
  actors_.start_threads();
  // The hidden thread must not be the one that a signal of the program is delivered to.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run_reactor(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_ || stop_; });
  if (!program_.main_) {
    changed_.wait(lock, [this] { return undrained_ == 0; });
    exit_code_ = stop_->code;
  } else if (!stop_) {
    lock.unlock();
    const int code = program_.main_(proc_);
    lock.lock();
    exit_code_ = stop_ ? stop_->code : code;
  } else {
    exit_code_ = stop_->code;
  }
  lock.unlock();
  std::exit(exit_code_);
}

void Runtime::shutdown(int code) {
  // A child of fork() that exits has no part in this; its parent goes on.
  if (::getpid() != pid_ || is_reactor_thread || !thread_.joinable()) return;
  reactor_.post([this] {
    ending_ = true;
    limit_life(reactor_.now() + kEndLimit);
  });
  if (has_worker_) work_.finish();
  const bool is_actor = actors_.is_here();  // which cannot wait for its own end
  if (!is_actor) {
    std::promise<void> stopped;
    reactor_.post([this, &stopped] { stop_actors("its proc ends", grace_end_, [&stopped] { stopped.set_value(); }); });
    stopped.get_future().wait();
  }
  const bool is_quiet = is_actor || actors_.finish_threads();
  reactor_.post([this] { leave(reactor_.now() + kFlushLimit, [this] { is_stopped_ = true; }); });
  thread_.join();
  if (is_quiet) return;
  // An actor that is stuck goes on using what exit() is about to destroy.
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

void Runtime::stop_actors(const std::string& reason, Reactor::Time end, std::function<void()> done) {
  const auto left = std::max<Reactor::Duration>(end - reactor_.now(), Reactor::Duration::zero());
  actors_.stop_all(reason, reactor_.now() + left - std::min<Reactor::Duration>(left, std::max<Reactor::Duration>(left / 4, kActorReserve)),
                   std::move(done));
}

void Runtime::note_drained() {
  const std::lock_guard lock(mutex_);
  --undrained_;
  changed_.notify_all();
}

ActorSystem::Outside Runtime::make_outside() {
  return {.has_handler = [this](std::uint32_t port) { return program_.handlers_.contains(port); },
          .send = [this](const ProcId& to, std::uint32_t port,
                         std::string_view body) { return send(to, port, body, std::chrono::milliseconds(0)); },
          .call = [this](const ProcId& to, std::uint32_t port, std::string body, std::chrono::milliseconds deadline,
                         Bus::CallAnswer answer) { call(to, port, std::move(body), deadline, std::move(answer)); }};
}

void Runtime::run_reactor() {
  is_reactor_thread = true;
  ::pthread_setname_np(::pthread_self(), "meshbus");
  bus_ = std::make_unique<Bus>(reactor_, context_, session_options(bootstrap_, pid_), make_handlers(), make_events());
  reactor_.add_turn_end([this] { report_room(); });
  reactor_.watch(signals_.fd(), EPOLLIN, [this](std::uint32_t) {
    if (const auto number = signals_.take()) begin_stop(128 + *number, signal_grace_, std::string("signal ") + ::strsignal(*number));
  });
  actors_.attach(*bus_);
  agent_.start(*bus_);
  work_.share_pastime();
  if (has_worker_) work_.set_pastime({.run = [this] { turn_meanwhile(); }, .wake = [this] { reactor_.wake(); }});
  while (!is_stopped_) {
    reactor_.run_until([this] { return is_stopped_ || work_.is_missed(); });
    work_.hand_over();
  }
  actors_.detach();
  bus_.reset();
  context_.close();  // waits for what still leaves, as long as the socket lingers
}

void Runtime::turn_meanwhile() {
  // A signal of the program must not interrupt what moves bytes.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  is_reactor_thread = true;
  reactor_.run_until([this] { return work_.is_wanted(); });
  is_reactor_thread = false;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Dispatcher Runtime::make_handlers() {
  Dispatcher handlers;
  handlers
      .on<wire::StopAndExit>(Role::host,
                             [this](const Request& request, const wire::StopAndExit& message) { on_stop_and_exit(request, message); })
      .on<wire::Exit>(Role::host, [this](const Request& request, const wire::Exit& message) {
        if (is_from_agent(request)) ::_exit(message.code());
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
  events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body) {
    on_data(envelope, header, body, std::nullopt);
  };
  events.on_cast = [this](const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body, const CastBody& cast) {
    on_data(envelope, header, body, point_of(cast));
  };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) { on_undelivered(envelope, error); };
  events.when_taken = [this](std::function<void()> then) {
    if (untaken_ == 0) return then();
    // Behind what waits for the handlers, and on its way to the reactor behind mark_taken().
    work_.push_last([this, then = std::move(then)] { reactor_.post(then); });
  };
  return events;
}

void Runtime::on_ready() {
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

void Runtime::on_refused(const Error& error) {
  end_now(kExitRefused, error.detail() + " (" + std::string(to_string(error.code())) + "); ending");
}

// --- Calls and messages. ---

std::optional<Point> Runtime::point_of(const CastBody& cast) {
  if (cast.front() == cast_front_) return cast_point_;
  cast_front_ = cast.front();
  cast_point_.reset();
  if (const auto view = from_wire(cast.head().view())) {
    if (auto point = view->point(rank_)) cast_point_ = std::move(*point);
  }
  return cast_point_;
}

void Runtime::on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body, std::optional<Point> point) {
  const bool is_call = envelope.kind() == wire::Kind::call;
  const auto is_behind = [&] {
    return Error(ErrorCode::queue_full, bootstrap_.proc.to_string() + " is behind: its queue for handlers is full");
  };
  // What an actor takes is told in the order in which it came, behind what waits for the handlers.
  if (!is_call && untaken_ > 0 && !work_.has_room()) return bus_->give_back(envelope, is_behind());
  switch (actors_.on_data(envelope, header, body, point)) {
    case ActorSystem::Delivery::not_mine: break;
    case ActorSystem::Delivery::returned: return;
    case ActorSystem::Delivery::taken:
      if (!is_call) take_in_turn(envelope);
      return;
  }
  const auto found = program_.handlers_.find(envelope.port());
  if (found == program_.handlers_.end()) {
    const bool is_of_actor = envelope.port() > UINT32_MAX / 2;
    const Error error(ErrorCode::no_such_port, bootstrap_.proc.to_string() +
                                                   (is_of_actor ? " has no actor with port " : " has no handler for port ") +
                                                   std::to_string(envelope.port()));
    return is_call ? bus_->fail_call(envelope, header, error) : bus_->give_back(envelope, error);
  }
  Incoming incoming;
  incoming.port = envelope.port();
  incoming.is_call = is_call;
  incoming.point = std::move(point);
  incoming.source_proc = envelope.source_proc();
  incoming.source_host = envelope.source_host();
  if (is_call && header.deadline_ms() > 0) incoming.deadline = reactor_.now() + std::chrono::milliseconds(header.deadline_ms());
  const bool taken = work_.push(sizeof incoming + body.size(),
                                [this, &handler = found->second, envelope, header, incoming, copy = std::string(body)]() mutable {
                                  incoming.body = copy;
                                  if (!incoming.is_call) mark_taken(envelope);
                                  handle(handler, envelope, header, incoming);
                                });
  if (taken) {
    if (!is_call) ++untaken_;
    return;
  }
  is_call ? bus_->fail_call(envelope, header, is_behind()) : bus_->give_back(envelope, is_behind());
}

void Runtime::take_in_turn(const wire::Envelope& envelope) {
  if (untaken_ == 0) return bus_->taken(envelope);
  work_.push_last([this, envelope] { mark_taken(envelope); });
  ++untaken_;
}

void Runtime::mark_taken(const wire::Envelope& envelope) {
  {
    const std::lock_guard lock(mutex_);
    taken_.push_back(envelope);
    if (taken_.size() > 1) return;  // is on its way
  }
  reactor_.post([this] {
    std::vector<wire::Envelope> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(taken_);
    }
    untaken_ -= taken.size();
    for (const auto& one : taken) bus_->taken(one);
  });
}

void Runtime::handle(const ProcProgram::Handler& handler, const wire::Envelope& envelope, const wire::CallHeader& header,
                     const Incoming& incoming) {
  if (incoming.deadline && *incoming.deadline < std::chrono::steady_clock::now()) return;  // nobody waits any more
  Result<std::string> answer = fail(ErrorCode::call_error, "");
  try {
    answer = handler(proc_, incoming);
  } catch (const std::exception& error) {
    answer = fail(ErrorCode::call_error, error.what());
  } catch (...) {
    answer = fail(ErrorCode::call_error, "an exception that is no std::exception");
  }
  if (!incoming.is_call) {
    if (!answer) log::warn("handler of port " + std::to_string(incoming.port) + ": " + answer.error().to_string());
    return;
  }
  if (!answer && answer.error().code() != ErrorCode::call_error) answer = fail(ErrorCode::call_error, answer.error().to_string());
  reactor_.post_quietly([this, envelope, header, answer = std::move(answer)] {
    if (answer) {
      bus_->answer_call(envelope, header, *answer);
    } else {
      bus_->fail_call(envelope, header, answer.error());
    }
  });
  // If this is the last one, this very thread turns the reactor next.
  if (!work_.is_last()) reactor_.wake();
}

void Runtime::on_undelivered(const wire::Envelope& envelope, const Error& error) {
  if (envelope.kind() == wire::Kind::control) return actors_.on_undelivered(envelope);
  if (envelope.kind() != wire::Kind::message) {
    // An answer that its caller is not there for any more.
    return log::debug("an answer came back: " + error.to_string());
  }
  if (!program_.on_undelivered_)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) + " came back: " + error.to_string());
  if (returns_ >= kMostReturns)
    return lost_log_.warn("a message for port " + std::to_string(envelope.port()) + " came back, and is not told of, because " +
                          std::to_string(kMostReturns) + " others wait for on_undelivered: " + error.to_string());
  ++returns_;
  work_.push_last([this, envelope, error] {
    --returns_;
    try {
      program_.on_undelivered_(proc_, Undelivered{rank_of(envelope.destination_proc()), envelope.port(), error});
    } catch (const std::exception& thrown) {
      log::warn(std::string("on_undelivered: ") + thrown.what());
    } catch (...) {
      log::warn("on_undelivered: an exception that is no std::exception");
    }
  });
}

std::optional<std::uint64_t> Runtime::rank_of(std::uint64_t proc_key) {
  std::call_once(ranks_once_, [this] {
    for (std::uint64_t rank = 0; rank < bootstrap_.mesh.num_ranks(); ++rank)
      rank_of_key_.emplace(bootstrap_.mesh.proc_at(rank)->key(), rank);
  });
  const auto found = rank_of_key_.find(proc_key);
  if (found == rank_of_key_.end()) return std::nullopt;
  return found->second;
}

Result<void> Runtime::check_caller(const ProcId& to) const {
  if (::getpid() != pid_)
    return fail(ErrorCode::refused, "this process is a child of fork(): it is not " + bootstrap_.proc.to_string() + "; use exec");
  if (is_reactor_thread) return fail(ErrorCode::would_block, "the library's own thread cannot wait");
  if (actors_.is_here())
    return fail(ErrorCode::would_block, "an actor that waits keeps its thread from the others; use ActorContext::call_async");
  if (work_.is_here() && to == bootstrap_.proc)
    return fail(ErrorCode::would_block, "a handler that calls its own proc would wait for itself");
  return {};
}

std::future<Result<std::string>> Runtime::call(const ProcId& to, std::uint32_t port, std::string_view body,
                                               std::chrono::milliseconds deadline) {
  if (::getpid() != pid_) return failed(check_caller(to).error());
  if (body.size() > kCallLimit) {
    return failed(
        Error(ErrorCode::too_large, "a call of " + std::to_string(body.size()) + " bytes; the limit is " + std::to_string(kCallLimit)));
  }
  auto answer = std::make_shared<Answer>();
  auto future = answer->get_future();
  call(to, port, std::string(body), deadline,
       [answer = std::move(answer)](Result<std::string> result) { answer->fill(std::move(result)); });
  return future;
}

void Runtime::call(const ProcId& to, std::uint32_t port, std::string body, std::chrono::milliseconds deadline, Bus::CallAnswer answer) {
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0), std::chrono::milliseconds(UINT32_MAX));
  reactor_.post([this, to = Destination::to(to), port, body = std::move(body), limit, answer = std::move(answer)]() mutable {
    bus_->call(to, port, body, limit, std::move(answer));
  });
}

Result<void> Runtime::make_room(Room size, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return waiting_.bytes + sent_.bytes + size.bytes <= kSendBytes && waiting_.copies + sent_.copies + size.copies <= Bus::kMostOutstanding;
  };
  if (!has_room() && (is_reactor_thread || !changed_.wait_for(lock, std::min(patience, kLongest), has_room))) {
    return fail(ErrorCode::queue_full, std::to_string(waiting_.bytes + sent_.bytes) + " bytes wait to leave; the limit is " +
                                           std::to_string(kSendBytes) + "; " + std::to_string(waiting_.copies + sent_.copies) +
                                           " messages are not known to be taken; the limit is " + std::to_string(Bus::kMostOutstanding));
  }
  waiting_.bytes += size.bytes;
  waiting_.copies += size.copies;
  return {};
}

void Runtime::queued(Room size) {
  const std::lock_guard lock(mutex_);
  waiting_.bytes -= size.bytes;
  waiting_.copies -= size.copies;
  sent_.bytes += size.bytes;
  sent_.copies += size.copies;
}

void Runtime::not_sent(const Destination& to, std::uint32_t port, const Error& error) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(to.proc);
  envelope.mutate_destination_host(to.host);
  envelope.mutate_port(port);
  envelope.mutate_kind(wire::Kind::message);
  on_undelivered(envelope, error);
}

Result<void> Runtime::send(const ProcId& to, std::uint32_t port, std::string_view body, std::chrono::milliseconds patience) {
  if (::getpid() != pid_) return fail(check_caller(to).error());
  if (body.size() > kBodyLimit) {
    return fail(ErrorCode::too_large, "a message of " + std::to_string(body.size()) + " bytes; the limit is " + std::to_string(kBodyLimit));
  }
  const Room size{body.size() + sizeof(wire::Envelope), 1};
  if (auto room = make_room(size, patience); !room) return room;
  reactor_.post([this, to = Destination::to(to), port, body = std::string(body), size] {
    const auto sent = bus_->send(to, port, body);
    queued(size);
    if (!sent) not_sent(to, port, sent.error());
  });
  return {};
}

Result<std::shared_ptr<const CastPlan>> Runtime::plan_cast(const ProcMeshRef& to, std::size_t bytes) {
  if (::getpid() != pid_) return fail(check_caller(bootstrap_.proc).error());
  if (bytes > kCastLimit) {
    return fail(ErrorCode::too_large, "a cast of " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(kCastLimit));
  }
  const std::lock_guard lock(plans_mutex_);
  return plans_.get(to);
}

Result<void> Runtime::cast(const ProcMeshRef& to, std::uint32_t port, std::string_view body, std::chrono::milliseconds patience) {
  auto plan = plan_cast(to, body.size());
  if (!plan) return fail(plan.error());
  const Room size{body.size() + sizeof(wire::Envelope), (*plan)->targets.size()};
  if (auto room = make_room(size, patience); !room) return room;
  reactor_.post([this, plan = std::move(*plan), port, body = std::string(body), size] {
    const auto sent = bus_->cast(*plan, port, body);
    queued(size);
    if (sent) return;
    for (const auto& target : plan->targets) not_sent({target.proc, target.host, {}}, port, sent.error());
  });
  return {};
}

Result<CastAnswers::Answers> Runtime::call_all(const ProcMeshRef& to, std::uint32_t port, std::string_view body,
                                               std::chrono::milliseconds deadline) {
  auto plan = plan_cast(to, body.size());
  if (!plan) return fail(plan.error());
  if ((*plan)->targets.empty()) return CastAnswers::Answers();
  const bool has_us = (*plan)->ordinal_of_proc.contains(bootstrap_.proc.key());
  if (auto allowed = check_caller(has_us ? bootstrap_.proc : (*plan)->view.proc_at(0).value()); !allowed) return fail(allowed.error());
  auto answers = std::make_shared<CastAnswers>((*plan)->targets.size());
  auto future = answers->get_future();
  const auto limit = std::clamp<std::chrono::milliseconds>(deadline, std::chrono::milliseconds(0), std::chrono::milliseconds(UINT32_MAX));
  reactor_.post([this, plan = std::move(*plan), port, body = std::string(body), limit, answers = std::move(answers)] {
    bus_->cast_call(plan, port, body, limit,
                    [answers](std::uint64_t ordinal, Result<std::string> answer) { answers->fill(ordinal, std::move(answer)); });
  });
  return future.get();
}

void Runtime::report_room() {
  const Room now{bus_->queued_bytes(), bus_->traffic().outstanding};
  const std::lock_guard lock(mutex_);
  if (now.bytes < sent_.bytes || now.copies < sent_.copies) changed_.notify_all();
  sent_ = now;
}

// --- The end. ---

bool Runtime::is_from_agent(const Request& request) {
  if (request.envelope.source_proc() == agent_.agent().key()) return true;
  bus_->refuse(request, Error(ErrorCode::unauthorised, "only " + agent_.agent().to_string() + " may end " + bootstrap_.proc.to_string()));
  return false;
}

void Runtime::on_stop_and_exit(const Request& request, const wire::StopAndExit& message) {
  if (!is_from_agent(request)) return;
  bus_->answer(request, wire::AckT());
  begin_stop(message.code(), std::chrono::milliseconds(message.grace_ms()), text_of(message.reason()));
}

void Runtime::limit_life(Reactor::Time end) {
  if (end >= grace_end_) return;
  grace_end_ = end;
  reactor_.cancel(grace_timer_);
  grace_timer_ = reactor_.at(end, [this] { on_grace_over(); });
}

void Runtime::begin_stop(int code, std::chrono::milliseconds grace, const std::string& reason) {
  const auto end = reactor_.now() + grace;
  limit_life(end);
  if (ending_ || stopping_) return;  // the first request decides; a later one can only make it sooner
  {
    const std::lock_guard lock(mutex_);
    stop_ = Stop{code, reason};
    exit_code_ = code;
    stopping_ = true;
    changed_.notify_all();
  }
  if (program_.on_stop_) {
    work_.push_first([this, reason] {
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
        bus_.reset();
        context_.close();
        ::_exit(exit_code_);
      });
    });
  }
}

void Runtime::on_grace_over() {
  std::string why = "its last handlers or messages took longer than 10 s";
  {
    const std::lock_guard lock(mutex_);
    if (stop_) why = "it was asked to stop (" + stop_->reason + ") and was still busy at the end of the grace";
  }
  end_now(exit_code_, why + "; ending");
}

void Runtime::leave(Reactor::Time give_up, std::function<void()> then) {
  if (bus_->queued_bytes() > 0 && reactor_.now() < give_up) {
    reactor_.after(std::chrono::milliseconds(1), [this, give_up, then = std::move(then)] { leave(give_up, then); });
    return;
  }
  bus_->close("the process ends", kFlushLimit);
  then();
}

void Runtime::end_now(int code, const std::string& line) {
  log::write_line(STDERR_FILENO, "meshbus: " + bootstrap_.proc.to_string() + ": " + line);
  ::_exit(code);
}

bool Runtime::stop_requested() noexcept {
  stop_is_watched_ = true;
  return stopping_;
}

bool Runtime::wait_for_stop(std::chrono::milliseconds at_most) {
  stop_is_watched_ = true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::min(at_most, kLongest), [this] { return stop_.has_value(); });
}

}  // namespace meshbus::mesh_proc
