#include "agent/proc/runtime/proc_ending.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "common/base/log.h"

namespace meshbus::mesh_proc {
namespace {

/// For the end of a process that was not asked to stop: how long its last handlers and messages may
/// take.
constexpr std::chrono::seconds kEndLimit{10};
/// How long messages may take to leave while the broker does not take them.
constexpr std::chrono::seconds kFlushLimit{2};
/// What of a grace is kept to find out which actors are stuck, and to say so.
constexpr std::chrono::milliseconds kActorReserve{1000};

}  // namespace

ProcEnding::ProcEnding(const Parts& parts, bool is_process, std::function<void()> on_cut)
    : parts_(parts),
      reactor_(parts.loop.reactor()),
      is_process_(is_process),
      on_cut_(std::move(on_cut)) {
  if (is_process_ && !parts_.leaves_signals) signals_.emplace();
}

void ProcEnding::attach(Bus& bus) {
  bus_ = &bus;
  if (!signals_) return;
  reactor_.watch(signals_->fd(), EPOLLIN, [this](std::uint32_t) {
    if (const auto number = signals_->take()) on_signal(*number);
  });
}

void ProcEnding::on_signal(int number) {
  begin_stop(128 + number, std::min(parts_.settings.grace(), ProcLife::kLongest),
             std::string("signal ") + ::strsignal(number));
}

void ProcEnding::begin_stop(int code, std::chrono::milliseconds grace, const std::string& reason) {
  if (parts_.life.is_cut()) return;
  const auto end = reactor_.now() + grace;
  limit_life(end);
  if (!parts_.life.begin_stop({code, reason})) return;
  parts_.intake.close_run();
  if (parts_.on_stop) call_on_stop(reason);
  const auto drained = [this] { parts_.life.note_drained(); };
  if (!parts_.has_main) {
    parts_.work.push_last(drained);
    stop_actors("its proc stops: " + reason, end, drained);
  } else if (!parts_.life.is_watched()) {
    // main() will not notice; see ProcProgram::on_stop. What it has sent leaves first.
    stop_actors("its proc stops: " + reason, end, [this, end] {
      leave(end, [this] {
        const int code_now = parts_.life.exit_code();
        if (!is_process_) return cut_off(code_now, "its main() does not ask whether it is to stop");
        ::_exit(code_now);
      });
    });
  }
}

void ProcEnding::call_on_stop(const std::string& reason) {
  parts_.work.push_first([this, reason] {
    if (parts_.life.is_cut()) return;
    try {
      parts_.on_stop(parts_.proc, reason);
    } catch (const std::exception& error) {
      log::warn(std::string("on_stop: ") + error.what());
    }
  });
}

void ProcEnding::begin_exit() {
  parts_.life.begin_exit();
  limit_life(reactor_.now() + kEndLimit);
}

void ProcEnding::limit_life(Reactor::Time end) {
  if (!parts_.life.limit(end)) return;
  reactor_.cancel(grace_timer_);
  grace_timer_ = reactor_.at(end, [this] { on_grace_over(); });
}

void ProcEnding::on_grace_over() {
  end_now(parts_.life.exit_code(), parts_.life.describe_limit() + "; ending");
}

void ProcEnding::stop_actors(const std::string& reason, Reactor::Time end,
                             std::function<void()> done) {
  const auto now = reactor_.now();
  const auto left = std::max<Reactor::Duration>(end - now, Reactor::Duration::zero());
  const auto reserve = std::max<Reactor::Duration>(left / 4, kActorReserve);
  parts_.actors.stop_all(reason, now + left - std::min(left, reserve), std::move(done));
}

void ProcEnding::leave(Reactor::Time end, std::function<void()> then) {
  wait_to_leave(std::min<Reactor::Time>(end, reactor_.now() + kFlushLimit), std::move(then));
}

void ProcEnding::wait_to_leave(Reactor::Time give_up, std::function<void()> then) {
  const bool is_waiting =
      bus_->queued_bytes() > 0 || bus_->large_under_way() > 0 || parts_.actor_sends.is_waiting();
  if (!parts_.life.is_cut() && is_waiting && reactor_.now() < give_up) {
    reactor_.after(std::chrono::milliseconds(1),
                   [this, give_up, then = std::move(then)] { wait_to_leave(give_up, then); });
    return;
  }
  if (!parts_.life.is_cut()) parts_.intake.acknowledge();
  bus_->close("the process ends", kFlushLimit);
  then();
}

void ProcEnding::quit(int code, const std::string& why) {
  if (is_process_) ::_exit(code);
  // Not from within what the bus has to say.
  reactor_.post([this, code, why] { cut_off(code, why); });
}

void ProcEnding::end_now(int code, const std::string& line) {
  if (parts_.life.is_cut()) return;
  log::write_line(STDERR_FILENO, "meshbus: " + parts_.bootstrap.proc.to_string() + ": " + line);
  quit(code, line);
}

void ProcEnding::cut_off(int code, const std::string& why) {
  if (!parts_.life.cut({code, why})) return;
  bus_->close(why, std::chrono::milliseconds(0));
  stop_actors("its proc has ended: " + why, reactor_.now(), [] {});
  if (on_cut_) on_cut_();
}

}  // namespace meshbus::mesh_proc
