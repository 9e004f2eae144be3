#include "agent/proc/several_procs.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "agent/proc/runtime/live_settings.h"
#include "common/base/log.h"

namespace meshbus::mesh_proc {
namespace {

/// For those that were cut off to return: what they hold is the process's, and it is to end.
constexpr std::chrono::seconds kCutLimit{1};
/// Those of the process, besides those of its procs.
constexpr std::size_t kOtherDescriptors = 32;

/// What lies in stdio's buffer, unless somebody is writing, or nobody reads: this thread must not
/// wait for either. What does not leave now leaves later, as what the process says then.
void flush_stdout() {
  pollfd room{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0 || ::ftrylockfile(stdout) != 0)
    return;
  ::fflush_unlocked(stdout);
  ::funlockfile(stdout);
}

}  // namespace

SeveralProcs::SeveralProcs(Bootstrap bootstrap, UniqueFd link, ProcProgram program)
    : bootstrap_(std::move(bootstrap)),
      link_(std::move(link)),
      program_(std::move(program)),
      pid_(::getpid()),
      notices_(std::make_shared<EndNotices>(reactor_, [this] { on_news(); })) {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  if (!Runtime::leaves_signals(program_)) signals_.emplace();
  // What is written down is the process's business, not that of one of its procs.
  const LiveSettings settings(bootstrap_,
                              [](const char* name) -> const char* { return std::getenv(name); });
  if (const auto level = settings.level()) log::set_least(*level);
}

void SeveralProcs::run() {
  reactor_.watch(link_.get(), EPOLLIN, [this](std::uint32_t) { on_link(); });
  if (signals_) {
    reactor_.watch(signals_->fd(), EPOLLIN, [this](std::uint32_t) {
      const auto number = signals_->take();
      if (!number) return;
      if (named_ != announced_) early_signal_ = number;
      for (const auto& [place, live] : live_) live.proc->signal(*number);
    });
  }
  for (;;) reactor_.run();
}

void SeveralProcs::on_exit(int code) const {
  if (is_over_ || ::getpid() != pid_) return;
  flush_stdout();
  ::_exit(code);
}

void SeveralProcs::on_link() {
  while (auto message = os::process_link::receive(link_.get())) {
    const auto record = message->record;
    if (record.what == os::process_link::What::start) {
      announced_ = static_cast<std::size_t>(record.number);
      start(record.proc, bootstrap_.at(record.proc), std::move(*message));
    } else if (record.what == os::process_link::What::ask) {
      // Without this answer nobody joins.
      os::process_link::send(link_.get(), {os::process_link::What::takes, 0, 0});
    } else if (record.what == os::process_link::What::join) {
      join(std::move(*message));
    } else {
      on_signal(record);
    }
  }
  const int error = errno;
  if (error == EAGAIN || error == EWOULDBLOCK) return;
  // Without its keeper nobody would hear of an end; the kernel ends us with it, unless that was not
  // wanted.
  log::write_line(STDERR_FILENO,
                  "meshbus: process " + std::to_string(pid_) + " of " +
                      std::to_string(live_.size()) + " procs " +
                      (error == EMFILE ? "has no descriptors left for all of its procs (ulimit -n)"
                                       : "has lost its keeper") +
                      "; ending");
  ::_exit(error == EMFILE ? EX_OSERR : EX_TEMPFAIL);
}

void SeveralProcs::join(os::process_link::Message message) {
  const auto record = message.record;
  auto bootstrap = load_joined(message.bootstrap.get(), bootstrap_.broker);
  if (bootstrap) bootstrap = bootstrap->at(static_cast<std::size_t>(record.number));
  if (bootstrap) {
    if (auto fine = Runtime::check(program_, *bootstrap); !fine) bootstrap = fail(fine.error());
  }
  announced_ = announced_.value_or(0) + 1;
  // Those that were cut off have company again.
  if (end_timer_ != 0) reactor_.cancel(std::exchange(end_timer_, 0));
  start(record.proc, std::move(bootstrap), std::move(message));
}

void SeveralProcs::start(std::uint32_t place, Result<Bootstrap> bootstrap,
                         os::process_link::Message message) {
  Live live{.proc = {},
            .out = std::move(message.out),
            .err = std::move(message.err),
            .is_leaving = false};
  ++named_;
  try {
    if (!bootstrap) throw std::runtime_error(bootstrap.error().to_string());
    if (const auto shortage = PseudoProc::find_shortage(kOtherDescriptors))
      throw std::runtime_error(*shortage);
    live.proc = PseudoProc::start(place, std::move(*bootstrap), program_, mask_, notices_);
  } catch (const std::exception& error) {
    return tell(
        place, std::move(live),
        {.signaled = false,
         .code = EX_OSERR,
         .last_words = std::string("meshbus: cannot start as a mesh proc: ") + error.what()});
  }
  if (!live.out) streams_.set_holder(place);
  if (early_signal_) live.proc->signal(*early_signal_);
  live_.emplace(place, std::move(live));
  if (named_ == announced_) pass_streams();
}

void SeveralProcs::on_signal(const os::process_link::Record& record) {
  const auto found = live_.find(record.proc);
  if (found == live_.end()) return;
  found->second.proc->signal(record.number);
  if (record.number != SIGKILL) return;
  found->second.is_leaving = true;
  pass_streams();
}

void SeveralProcs::on_news() {
  for (const auto place : notices_->take()) {
    auto live = live_.extract(place);
    const auto end = live.mapped().proc->join();
    tell(static_cast<std::uint32_t>(place), std::move(live.mapped()), end);
  }
  for (auto& [place, live] : live_) live.is_leaving = live.is_leaving || live.proc->cut_code();
  pass_streams();
  limit_end();
}

void SeveralProcs::limit_end() {
  const auto is_cut = [](const auto& one) { return one.second.proc->cut_code().has_value(); };
  if (end_timer_ != 0 || named_ != announced_ || !std::all_of(live_.begin(), live_.end(), is_cut))
    return;
  end_timer_ = reactor_.after(kCutLimit, [this] {
    const auto code = live_.begin()->second.proc->cut_code();
    flush_stdout();
    ::_exit(code.value_or(EX_TEMPFAIL));
  });
}

void SeveralProcs::tell(std::uint32_t place, Live live, const PseudoProc::End& end) {
  if (!end.last_words.empty())
    log::write_line(live.err ? live.err.get() : STDERR_FILENO, end.last_words);
  if (live_.empty() && named_ == announced_) end_with(end);
  flush_stdout();
  streams_.release(place);
  pass_streams();
  live = {};  // its pipes end before its end is told
  const auto what = end.signaled ? os::process_link::What::killed : os::process_link::What::ended;
  if (!os::process_link::send(link_.get(), {what, place, end.code}))
    log::write_line(STDERR_FILENO, "meshbus: the end of a proc of process " + std::to_string(pid_) +
                                       " could not be told");
}

void SeveralProcs::pass_streams() {
  if (named_ != announced_) return;
  const auto place = streams_.holder();
  if (const auto holder = place ? live_.find(*place) : live_.end();
      holder != live_.end() && !holder->second.is_leaving)
    return;
  const auto next = std::find_if(live_.begin(), live_.end(), [](const auto& one) {
    return one.second.out && !one.second.is_leaving;
  });
  if (next == live_.end()) return;
  streams_.pass_to(next->first, next->second.out, next->second.err);
}

void SeveralProcs::end_with(const PseudoProc::End& end) {
  is_over_ = true;
  notices_->close();
  if (end.signaled) {
    flush_stdout();
    std::signal(end.code, SIG_DFL);
    ::kill(pid_, end.code);
    // It may be blocked by the program, or on its way.
    ::_exit(128 + end.code);
  }
  std::exit(end.code);
}

}  // namespace meshbus::mesh_proc
