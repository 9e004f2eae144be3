#include "agent/host/hands/exec.h"

#include <csignal>
#include <utility>

#include "wire/frame_generated.h"

namespace meshbus::host {
namespace {

/// Output that its requester has not taken.
constexpr std::size_t kExecWindow = 256 * 1024;
/// From SIGHUP to SIGKILL.
constexpr std::chrono::seconds kHangUpLimit{2};
/// From a message that came back to the next attempt.
constexpr std::chrono::milliseconds kExecRetryAfter{300};
/// An exec that has ended waits for its requester so long.
constexpr std::chrono::seconds kFarewellLimit{60};

}  // namespace

Exec::Exec(Bus& bus, SideProcesses& processes, Spec spec, Events events)
    : bus_(bus),
      processes_(processes),
      spec_(std::move(spec)),
      events_(std::move(events)),
      input_(bus.reactor(), spec_.has_terminal,
             [this] {
               if (id_) processes_.close_input(*id_);
             }),
      pipes_(bus.reactor(), kExecWindow,
             [this] {
               flush();
               finish_if_ended();
             }),
      heard_(bus.reactor().now()) {}

Exec::~Exec() {
  for (const auto timer : {timers_.lease, timers_.kill, timers_.resend})
    bus_.reactor().cancel(timer);
  if (id_) processes_.drop(*id_);
}

Result<void> Exec::start(os::SpawnSpec shared) {
  os::ProcSpec process;
  process.stdin_choice = spec_.has_input ? os::Stdio::pipe : os::Stdio::null;
  auto id =
      processes_.start(std::move(shared), std::move(process),
                       {.on_birth = [this](keeper::Birth birth) { on_birth(std::move(birth)); },
                        .on_exit = [this](const keeper::Exit& exit) { on_exit(exit); },
                        .on_gone = [this] { on_gone(); }});
  if (!id) return fail(id.error());
  id_ = *id;
  watch_lease();
  return {};
}

void Exec::on_birth(keeper::Birth birth) {
  if (birth.failure) {
    id_.reset();
    is_over_ = true;
    events_.on_started(fail(ErrorCode::io_error, os::describe(*birth.failure)));
    return events_.on_over();
  }
  is_born_ = true;
  if (birth.stdin_pipe) input_.attach(std::move(birth.stdin_pipe));
  pipes_.attach(std::move(birth.stdout_pipe), std::move(birth.stderr_pipe));
  events_.on_started(static_cast<std::uint32_t>(birth.pid));
  // The end came first.
  if (!reason_.empty()) processes_.signal(*id_, SIGKILL);
}

void Exec::flush() {
  if (is_abandoned_ || timers_.resend != 0 || !bus_.is_up()) return;
  while (const auto* message = pipes_.output().next()) {
    wire::ExecOutputT sent = *message;
    sent.exec = spec_.number;
    if (bus_.tell(Destination::to(spec_.requester), std::move(sent), wire::Lane::data)) continue;
    pipes_.output().put_back();
    return retry_later();
  }
}

void Exec::retry_later() {
  if (timers_.resend != 0) return;
  timers_.resend = bus_.reactor().after(kExecRetryAfter, [this] {
    timers_.resend = 0;
    if (std::exchange(telling_.is_all_again, false)) {
      pipes_.output().resend();
      telling_.is_end_owed = telling_.is_end_told;
    }
    pipes_.read_on();
    flush();
    if (telling_.is_end_owed) tell_end();
  });
}

void Exec::on_exit(const keeper::Exit& exit) {
  exit_ = exit;
  bus_.reactor().cancel(std::exchange(timers_.kill, 0));
  input_.close("it has ended");
  finish_if_ended();
}

void Exec::on_gone() {
  id_.reset();
  // Another process may hold its pipes: their end would never come.
  if (exit_) pipes_.finish();
  if (is_abandoned_) be_over();
}

void Exec::finish_if_ended() {
  const bool are_streams_ended = pipes_.are_ended() || is_abandoned_;
  if (!exit_ || !are_streams_ended || telling_.is_end_told) return;
  telling_.is_end_told = true;
  tell_end();
  if (is_abandoned_ && !id_) return be_over();
  watch_lease();
}

void Exec::tell_end() {
  wire::ExecEndedT ended;
  ended.exec = spec_.number;
  ended.last = pipes_.output().last();
  (exit_->signaled ? ended.signal : ended.code) = static_cast<std::uint8_t>(exit_->code);
  ended.reason = reason_;
  // Also to one that is gone: it is for the audit trail.
  telling_.is_end_owed = !bus_.tell(Destination::to(spec_.requester), std::move(ended));
  if (telling_.is_end_owed) retry_later();
}

void Exec::be_over() {
  if (!std::exchange(is_over_, true)) events_.on_over();
}

void Exec::on_heard() {
  heard_ = bus_.reactor().now();
}

void Exec::signal(int signal) {
  if (id_ && is_born_ && !exit_) processes_.signal(*id_, signal);
}

void Exec::taken(std::uint64_t sequence, bool resend, bool ended) {
  pipes_.output().taken(sequence);
  if (ended && telling_.is_end_told) return be_over();
  if (resend) return this->resend();
  pipes_.read_on();
  flush();
  // The end may have been lost on its way.
  if (telling_.is_end_told && pipes_.output().is_all_taken()) tell_end();
}

void Exec::resend() {
  if (is_abandoned_) return;
  telling_.is_all_again = true;
  retry_later();
}

void Exec::end(const std::string& reason, bool now) {
  if (reason_.empty()) reason_ = reason;
  if (!id_ || exit_) return;
  // One that is not born yet gets it at its birth.
  if (!is_born_) return;
  if (now) return processes_.signal(*id_, SIGKILL);
  input_.close("it is to end");
  if (timers_.kill != 0) return;
  processes_.signal(*id_, SIGHUP);
  timers_.kill = bus_.reactor().after(kHangUpLimit, [this] {
    timers_.kill = 0;
    if (id_) processes_.signal(*id_, SIGKILL);
  });
}

void Exec::abandon(const std::string& reason) {
  if (std::exchange(is_abandoned_, true)) return;
  end(reason, /*now=*/false);
  pipes_.discard();
  finish_if_ended();
  if (!id_) be_over();
}

void Exec::watch_lease() {
  const auto limit = telling_.is_end_told ? std::chrono::milliseconds(kFarewellLimit) : spec_.lease;
  bus_.reactor().cancel(std::exchange(timers_.lease, 0));
  if (limit.count() == 0) return;
  timers_.lease = bus_.reactor().at(heard_ + limit, [this, limit] {
    timers_.lease = 0;
    if (bus_.reactor().now() - heard_ < limit) return watch_lease();
    if (telling_.is_end_told) return be_over();
    abandon("nothing was heard of its requester for " + std::to_string(limit.count()) + " ms");
  });
}

}  // namespace meshbus::host
