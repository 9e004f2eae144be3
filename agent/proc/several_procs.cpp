#include "agent/proc/several_procs.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <utility>
#include <vector>

#include "agent/proc/live_settings.h"
#include "common/log.h"

namespace meshbus::mesh_proc {

SeveralProcs::SeveralProcs(Bootstrap bootstrap, UniqueFd link, ProcProgram program)
    : bootstrap_(std::move(bootstrap)),
      link_(std::move(link)),
      program_(std::move(program)),
      pid_(::getpid()),
      notices_(std::make_shared<EndNotices>(reactor_, [this] { on_ends(); })) {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_);
  // What is written down is the process's business, not that of one of its procs.
  const LiveSettings settings(bootstrap_, [](const char* name) -> const char* { return std::getenv(name); });
  if (const auto level = settings.level()) log::set_least(*level);
}

void SeveralProcs::run() {
  reactor_.watch(link_.get(), EPOLLIN, [this](std::uint32_t) { on_link(); });
  reactor_.watch(signals_.fd(), EPOLLIN, [this](std::uint32_t) {
    const auto number = signals_.take();
    for (const auto& [place, live] : live_) {
      if (number) live.proc->signal(*number);
    }
  });
  for (;;) reactor_.run();
}

void SeveralProcs::on_exit(int code) const {
  if (is_over_ || ::getpid() != pid_) return;
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(code);
}

void SeveralProcs::on_link() {
  while (auto message = process_link::receive(link_.get())) {
    const auto record = message->record;
    if (record.what == process_link::What::start) {
      announced_ = static_cast<std::size_t>(record.number);
      start(record.proc, std::move(*message));
    } else {
      on_signal(record);
    }
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return;
  // Without its keeper nobody would hear of an end; the kernel ends us with it, unless that was not wanted.
  log::write_line(STDERR_FILENO, "meshbus: process " + std::to_string(pid_) + " of " + std::to_string(live_.size()) +
                                     " procs has lost its keeper; ending");
  ::_exit(EX_TEMPFAIL);
}

void SeveralProcs::start(std::uint32_t place, process_link::Message message) {
  Live live{.proc = {}, .out = std::move(message.out), .err = std::move(message.err)};
  ++named_;
  try {
    auto bootstrap = bootstrap_.at(place);
    if (!bootstrap) throw std::runtime_error(bootstrap.error().to_string());
    live.proc = PseudoProc::start(place, std::move(*bootstrap), program_, mask_, notices_);
    live_.emplace(place, std::move(live));
  } catch (const std::exception& error) {
    tell(place, std::move(live),
         {.signaled = false, .code = EX_OSERR, .last_words = std::string("meshbus: cannot start as a mesh proc: ") + error.what()});
  }
}

void SeveralProcs::on_signal(const process_link::Record& record) {
  const auto found = live_.find(record.proc);
  if (found != live_.end()) found->second.proc->signal(record.number);
}

void SeveralProcs::on_ends() {
  for (const auto place : notices_->take()) {
    auto live = live_.extract(place);
    const auto end = live.mapped().proc->join();
    tell(static_cast<std::uint32_t>(place), std::move(live.mapped()), end);
  }
}

void SeveralProcs::tell(std::uint32_t place, Live live, const PseudoProc::End& end) {
  if (!end.last_words.empty()) log::write_line(live.err ? live.err.get() : STDERR_FILENO, end.last_words);
  if (live_.empty() && named_ == announced_) end_with(end);
  if (!live.out) {
    // What the process writes from now on is the next one's.
    std::cout.flush();
    std::fflush(nullptr);
    if (const auto next = std::find_if(live_.begin(), live_.end(), [](const auto& one) { return bool(one.second.out); });
        next != live_.end()) {
      ::dup2(next->second.out.get(), STDOUT_FILENO);
      ::dup2(next->second.err.get(), STDERR_FILENO);
      next->second.out.reset();
      next->second.err.reset();
    }
  }
  live = {};  // its pipes end before its end is told
  const auto what = end.signaled ? process_link::What::killed : process_link::What::ended;
  if (!process_link::send(link_.get(), {what, place, end.code}))
    log::write_line(STDERR_FILENO, "meshbus: the end of a proc of process " + std::to_string(pid_) + " could not be told");
}

void SeveralProcs::end_with(const PseudoProc::End& end) {
  is_over_ = true;
  notices_->close();
  if (end.signaled) {
    std::cout.flush();
    std::fflush(nullptr);
    std::signal(end.code, SIG_DFL);
    ::kill(pid_, end.code);
    // It may be blocked by the program, or on its way.
    ::_exit(128 + end.code);
  }
  std::exit(end.code);
}

}  // namespace meshbus::mesh_proc
