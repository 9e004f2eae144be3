#include "agent/proc/pseudo_proc.h"

#include <pthread.h>
#include <sys/resource.h>

#include <exception>
#include <utility>

#include "common/base/masked_thread.h"

namespace meshbus::mesh_proc {

void EndNotices::add(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  ended_.push_back(id);
  changed_.notify_all();
  if (reactor_ != nullptr) reactor_->post(on_news_);
}

void EndNotices::nudge() {
  const std::lock_guard lock(mutex_);
  if (reactor_ != nullptr) reactor_->post(on_news_);
}

std::vector<std::uint64_t> EndNotices::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ended_, {});
}

void EndNotices::close() {
  const std::lock_guard lock(mutex_);
  reactor_ = nullptr;
  on_news_ = nullptr;
}

bool EndNotices::wait(std::size_t count, std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, deadline, [&] { return ended_.size() >= count; });
}

PseudoProc::PseudoProc(Bootstrap bootstrap, const ProcProgram& program,
                       std::function<void()> on_cut)
    : proc_(bootstrap.proc),
      runtime_(std::make_unique<Runtime>(std::move(bootstrap), program, Runtime::Kind::pseudo,
                                         std::move(on_cut))) {
  ++count_;
}

std::shared_ptr<PseudoProc> PseudoProc::start(std::uint64_t id, Bootstrap bootstrap,
                                              const ProcProgram& program, const sigset_t& mask,
                                              std::shared_ptr<EndNotices> notices) {
  std::shared_ptr<PseudoProc> proc(
      new PseudoProc(std::move(bootstrap), program, [notices] { notices->nudge(); }));
  proc->thread_ = start_masked_thread([proc, id, mask, notices = std::move(notices)] {
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    proc->run();
    notices->add(id);
  });
  return proc;
}

void PseudoProc::run() {
  End end;
  try {
    end.code = runtime_->run();
  } catch (const std::exception& error) {
    end = {.signaled = true,
           .code = SIGABRT,
           .last_words = std::string("main() ended with an exception: ") + error.what()};
  } catch (...) {
    end = {.signaled = true,
           .code = SIGABRT,
           .last_words = "main() ended with an exception that is no std::exception"};
  }
  runtime_->shutdown(end.code);
  std::unique_ptr<Runtime> over;
  {
    const std::lock_guard lock(mutex_);
    if (!end.signaled) end.code = runtime_->exit_code() & 0xff;  // as of a process
    if (is_killed_) end = {.signaled = true, .code = SIGKILL};
    end_ = std::move(end);
    over = std::move(runtime_);
  }
}

std::optional<std::string> PseudoProc::find_shortage(std::size_t others) {
  // Eight were counted, of which one or two are for its connection and for what it says at its end.
  constexpr rlim_t each = 9;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || (count_ + 1) * each + others <= limit.rlim_cur)
    return std::nullopt;
  return std::to_string(count_) + " procs share this process, and each takes " +
         std::to_string(each) + " of " + std::to_string(limit.rlim_cur) +
         " descriptors (ulimit -n)";
}

std::optional<int> PseudoProc::cut_code() {
  const std::lock_guard lock(mutex_);
  if (runtime_ == nullptr || !runtime_->is_cut()) return std::nullopt;
  return runtime_->exit_code();
}

void PseudoProc::signal(int number) {
  const std::lock_guard lock(mutex_);
  if (runtime_ == nullptr) return;
  if (number == SIGKILL) {
    is_killed_ = true;
    runtime_->cut("it was killed");
  } else {
    runtime_->stop(number);
  }
}

PseudoProc::End PseudoProc::join() {
  thread_.join();
  return end_;
}

}  // namespace meshbus::mesh_proc
