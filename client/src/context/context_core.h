#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>

#include "client/src/base/handler_thread.h"
#include "client/src/base/host_ways.h"
#include "client/src/base/returned_messages.h"
#include "client/src/context/connection.h"
#include "client/src/context/message_sender.h"
#include "common/base/forks.h"
#include "common/bus/session.h"
#include "common/config/config.h"
#include "common/loop/reactor.h"
#include "meshbus/context.h"

namespace meshbus {

/// What stands behind a Context: the reactor's thread, the handlers' thread, and the connections to
/// brokers, which it owns. Context, HostMesh and ProcMesh share it; nothing that the reactor or the
/// handlers hold does, so that its end is decided by user objects alone.
class ContextCore {
 public:
  static Result<std::shared_ptr<ContextCore>> create(ContextOptions options);
  ~ContextCore();
  ContextCore(const ContextCore&) = delete;
  ContextCore& operator=(const ContextCore&) = delete;

  const Config& config() const noexcept { return config_; }
  const ContextOptions& options() const noexcept { return options_; }
  Reactor& reactor() noexcept { return reactor_; }
  HandlerThread& handlers() noexcept { return handlers_; }
  /// Messages of this launcher that have not arrived.
  ReturnedMessages& returned() noexcept { return returned_; }
  MessageSender& sender() noexcept { return sender_; }

  /// Whether the caller is the reactor's thread, or in a turn of it or a visit.
  bool is_reactor_thread() const {
    return thread_.get_id() == std::this_thread::get_id() || reactor_.is_in_turn();
  }
  /// Errors: refused after a fork.
  Result<void> check_process() const;
  /// The same, and would_block on the reactor's thread.
  Result<void> check_may_wait() const;

  void post(Reactor::Task task) { reactor_.post(std::move(task)); }
  /// Runs `function` on the reactor's thread and waits for what it returns. Only after
  /// check_may_wait().
  template <typename Function>
  auto run(Function function) -> std::invoke_result_t<Function> {
    using Value = std::invoke_result_t<Function>;
    std::packaged_task<Value()> task(std::move(function));
    auto future = task.get_future();
    auto shared = std::make_shared<std::packaged_task<Value()>>(std::move(task));
    reactor_.post([shared] { (*shared)(); });
    return future.get();
  }

  /// Runs `function` between two turns, on the caller's thread, or in this one. Only after
  /// check_may_wait().
  template <typename Function>
  auto visit(Function function) -> std::invoke_result_t<Function> {
    if (reactor_.is_in_turn()) return function();
    const auto visit = reactor_.visit();
    return function();
  }
  /// Within a visit or a turn: what all connections have queued leaves, as far as it goes now.
  void flush();
  /// Turns the reactor until that holds, unless another thread does so: an answer then need not
  /// wake one thread after the other. May return before. Only after check_may_wait().
  void wait_until(const std::function<bool()>& is_done) { reactor_.wait_until(is_done); }

  HostWays& ways() noexcept { return ways_; }
  const HostWays& ways() const noexcept { return ways_; }
  /// Any thread. Writes into the options of a session how to come to the broker of that host.
  void reach(const HostAddr& host, Session::Options& session) const;

  /// A connection whose gateway is that host, shared with its other users. It is closed
  /// when its last use goes.
  ConnectionUse connect(const std::shared_ptr<ContextCore>& self, const HostAddr& gateway);
  /// A connection that was never open: for meshes without a host.
  ConnectionUse connect_to_nobody(const std::shared_ptr<ContextCore>& self);
  struct BestConnection {
    Connection* connection = nullptr;
    bool is_known = false;  ///< It knows that host.
  };
  /// Within a visit or a turn. Errors: unroutable.
  Result<BestConnection> best_connection(const HostAddr& host) const;
  /// A connection through which that host can be asked. Errors: unroutable when this Context has no
  /// host mesh.
  Result<ConnectionUse> find_connection(const std::shared_ptr<ContextCore>& self,
                                        const HostAddr& host);
  /// Any thread, for ConnectionUse: it was the last one.
  void release(Connection* connection);
  /// Reactor thread: these actors are nobody's any more. `stops`: those that are being made are to
  /// end.
  void forget_actors(Connection* connection, const std::weak_ptr<ActorMonitor>& actors, bool stops);
  /// Reactor thread: that host is gone for ever, by proof.
  void on_host_ended(const HostAddr& host, const std::string& reason);

 private:
  ContextCore(ContextOptions options, Config config);

  ContextOptions options_;
  Config config_;
  const OwnProcess process_;
  Reactor reactor_;
  /// Reactor thread.
  std::map<Connection*, std::unique_ptr<Connection>> connections_;
  bool closing_ = false;
  HostWays ways_;
  HandlerThread handlers_;
  ReturnedMessages returned_{handlers_, options_.on_returned};
  MessageSender sender_{*this};
  std::thread thread_;
};

}  // namespace meshbus
