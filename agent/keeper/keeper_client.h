#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "agent/keeper/protocol.h"

namespace meshbus::keeper {

/// The agent's end of the socket to the keeper. Never blocks, has no thread: the agent watches fd()
/// on its reactor. Handlers run inside on_ready(); they may call spawn(), signal() and kill_mesh(),
/// but must not destroy the client.
class KeeperClient {
 public:
  /// Once per ProcSpec, failures included; and at first for what there is already.
  struct Events {
    std::function<void(Birth)> on_birth;
    std::function<void(const Exit&)> on_exit;  ///< Once per proc that was born, after its Birth.
    std::function<void(const Gone&)> on_gone;  ///< Once per proc that was born, after its Exit.
    std::function<void()> on_replayed = [] {
    };  ///< Once: what was before this agent's time has been told.
    std::function<void()>
        on_lost;  ///< Once: the keeper is dead or spoke nonsense; nothing comes after.
  };
  KeeperClient(UniqueFd socket, Events events);

  /// For EPOLLIN, and EPOLLOUT while wants_write(). Stays open, readable, until the client goes;
  /// unwatch it at on_lost.
  int fd() const noexcept { return socket_.get(); }
  /// Queues the batch, cut into packets; sent by flush(). Takes the bootstrap descriptors over.
  /// Errors: too_large, configuration_error, io_error (no memfd); then nothing of the batch is
  /// queued. The answers are Births. After on_lost: refused.
  Result<void> spawn(os::SpawnBatch batch);
  /// Queues a signal; see after_signals(). Signals for procs that are reaped, or unknown, are
  /// ignored. Errors: refused after on_lost.
  Result<void> signal(const Signal& signal);
  /// Queues a hold, behind the signals so far; after_signals() says whether it was begun. Errors:
  /// refused after on_lost.
  Result<void> hold(const Hold& hold);
  /// What became of signals; the error is on_lost's.
  using AfterSignals = std::function<void(const Result<Signalled>&)>;
  /// Calls it once: when the keeper has sent every signal that was queued before this call.
  void after_signals(AfterSignals after);
  Result<void> kill_mesh(const KillMesh& request);
  /// See the records of these names. After on_lost: nothing.
  void forget(const Forget& proc);
  void close_input(const CloseInput& proc);

  /// Sends what is queued as far as the socket takes it: call at the end of each turn.
  void flush();
  /// Whether anything waits that the keeper is to do; what it may forget or close can wait.
  bool has_orders() const noexcept { return !lost_ && !(queue_.empty() && signals_.empty()); }
  bool wants_write() const noexcept {
    return !lost_ && !(queue_.empty() && signals_.empty() && forgets_.empty() && closes_.empty());
  }
  /// Call when fd() is readable: receives (bounded: at most 16 packets a call; the fd stays ready).
  /// Sends nothing: what the keeper is told must be written down first.
  void on_ready();
  bool lost() const noexcept { return lost_; }

 private:
  void queue_collected();
  void on_signalled(const Signalled& signalled);
  void lose();

  UniqueFd socket_;
  Events events_;
  EventHandlers handlers_;
  std::deque<os::Packet> queue_;
  std::vector<Signal> signals_;  // collected, so that stopping 1000 procs is a few packets
  std::vector<Forget> forgets_;
  std::vector<CloseInput> closes_;
  std::uint64_t next_token_;
  std::deque<std::pair<std::uint64_t, AfterSignals>> awaiting_;  // by token
  bool lost_ = false;
};

}  // namespace meshbus::keeper
