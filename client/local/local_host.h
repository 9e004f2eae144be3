#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "client/local/thread_keeper.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus::local {

/// A host inside of this process: the broker, the agent and a ThreadKeeper, on one reactor in a
/// thread of its own. It has ended when its procs have, or were given up by kill(). Any thread.
class LocalHost {
 public:
  struct Ended {
    std::string how;
    bool is_in_order = true;
    /// Procs whose threads have not returned.
    std::size_t left = 0;
  };
  using EndListener = std::function<void(const Ended&)>;
  struct Options {
    Config config;
    ThreadKeeper::Options keeper;
  };

  /// Does not wait for it.
  explicit LocalHost(Options options);
  /// Ends it by force.
  ~LocalHost();
  LocalHost(const LocalHost&) = delete;
  LocalHost& operator=(const LocalHost&) = delete;

  /// Waits until it serves. Where. Errors: io_error and what its broker says; timeout.
  Result<HostAddr> wait_ready(std::chrono::steady_clock::time_point end);
  /// Stops its procs, then ends; without waiting.
  void stop(const std::string& reason);
  /// Ends without a word to its procs, which are killed, and does not wait for those that do not
  /// end in a second; without waiting.
  void kill(const std::string& reason);
  /// Calls that when it has ended, on its thread, or now. Once.
  void when_ended(EndListener listener);
  /// Whether it has ended by then, and how.
  std::optional<Ended> wait_end(std::chrono::steady_clock::time_point end);

 private:
  class Roles;
  void run(Options options);
  void fail_start(const Error& error);
  void post(std::function<void(Roles&)> task);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Result<HostAddr>> ready_;  // guarded by mutex_, like what follows
  Roles* roles_ = nullptr;                 // null: not yet, or not any more
  std::optional<std::string> killed_;      // before there were roles
  EndListener listener_;
  std::optional<Ended> ended_;
  std::atomic<bool> is_hasty_{false};
  std::thread thread_;
};

}  // namespace meshbus::local
