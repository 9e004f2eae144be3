#pragma once

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/runtime.h"
#include "common/loop/reactor.h"
#include "meshbus/proc.h"

namespace meshbus::mesh_proc {

/// Where pseudo-procs say that they have ended: it may outlive the listener.
class EndNotices {
 public:
  /// `on_news` is called on the reactor's thread, until close().
  EndNotices(Reactor& reactor, std::function<void()> on_news)
      : reactor_(&reactor), on_news_(std::move(on_news)) {}

  /// Any thread.
  void add(std::uint64_t id);
  /// Any thread: on_news is called for another reason.
  void nudge();
  /// Reactor's thread.
  std::vector<std::uint64_t> take();
  /// Reactor's thread: on_news is not called any more.
  void close();
  /// After close(): waits until so many more have ended. Whether they have.
  bool wait(std::size_t count, std::chrono::milliseconds deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Reactor* reactor_;  // guarded by mutex_, like what follows; null: closed
  std::function<void()> on_news_;
  std::vector<std::uint64_t> ended_;
};

/// A proc without a process: what bootstrap() makes of a program in a process of its own, on
/// threads of this one. Its threads hold it until they have returned. Any thread.
class PseudoProc {
 public:
  struct End {
    bool signaled = false;
    int code = 0;
    std::string last_words = {};
  };

  /// Why there is no room for another one beside `others` descriptors: without any left
  /// reactors abort.
  static std::optional<std::string> find_shortage(std::size_t others);

  /// `mask`: of the threads that run the program. Throws what Runtime throws, and std::system_error
  /// when there is no thread to be had.
  static std::shared_ptr<PseudoProc> start(std::uint64_t id, Bootstrap bootstrap,
                                           const ProcProgram& program, const sigset_t& mask,
                                           std::shared_ptr<EndNotices> notices);
  ~PseudoProc() { --count_; }
  PseudoProc(const PseudoProc&) = delete;
  PseudoProc& operator=(const PseudoProc&) = delete;

  const ProcId& id() const noexcept { return proc_; }
  /// The exit code of one that was cut off and has not ended: it does not return.
  std::optional<int> cut_code();
  /// SIGTERM, SIGINT or SIGKILL; nothing when it has ended.
  void signal(int number);
  /// Once, when its end was told: waits for the thread, which is about to be gone.
  End join();
  /// Nobody waits for it any more.
  void let_go() { thread_.detach(); }

 private:
  PseudoProc(Bootstrap bootstrap, const ProcProgram& program, std::function<void()> on_cut);
  void run();

  static inline std::atomic<std::size_t> count_{0};

  const ProcId proc_;
  std::thread thread_;
  std::mutex mutex_;
  std::unique_ptr<Runtime> runtime_;  // guarded by mutex_, like what follows; null: it has ended
  bool is_killed_ = false;
  End end_;
};

}  // namespace meshbus::mesh_proc
