#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/proc/actors/actor_cell.h"
#include "agent/proc/actors/actor_pool.h"
#include "agent/proc/actors/actor_requests.h"
#include "agent/proc/actors/actor_runner.h"
#include "agent/proc/actors/actor_table.h"
#include "agent/proc/actors/busy_handler.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/wire/actor_body.h"
#include "common/wire/dispatcher.h"
#include "meshbus/actor.h"
#include "wire/forward.h"

namespace meshbus::mesh_proc {

/// The actors of one proc. Messages come in on the reactor's thread and lie in mailboxes; a pool
/// runs the actors; what they cause (answers, changes of state) goes back to the reactor. Functions
/// are called on the reactor's thread unless they say otherwise.
/// Large because: messages, requests, timers and the actors themselves change the states of actors,
/// under one lock; what needs none of it is in ActorRunner, ActorRequests and ActorTable.
class ActorSystem {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Lock = std::unique_lock<std::mutex>;
  using Types = std::map<std::string, ProcProgram::ActorType, std::less<>>;
  /// What it needs of the proc that it is in; for any thread.
  struct Outside {
    std::function<bool(std::uint32_t port)> has_handler;
    std::function<Result<void>(const ProcId& to, std::uint32_t port, const BodyParts& body)> send;
    /// Runs the task between two turns of the reactor; what it sends leaves soon.
    std::function<void(const std::function<void()>&)> visit;
    std::function<void(const ProcId& to, std::uint32_t port, const BodyParts& body,
                       std::chrono::milliseconds deadline, Bus::CallAnswer answer)>
        call;
  };

  ActorSystem(Reactor& reactor, Proc& proc, ProcId self, const Types& types, unsigned threads,
              Outside outside);
  ~ActorSystem();
  ActorSystem(const ActorSystem&) = delete;
  ActorSystem& operator=(const ActorSystem&) = delete;

  /// Makes the threads, if there are types. Before the reactor runs; on a thread with the program's
  /// own signal mask.
  void start_threads();
  /// The control messages of actors.fbs.
  void add_handlers(Dispatcher& handlers) { requests_.add_handlers(handlers); }
  /// From now on messages may come. `bus` must outlive this, or detach() come first.
  void attach(Bus& bus);
  /// Nothing leaves or is waited for any more.
  void detach();
  /// See ActorPool. What actors say leaves when one of its threads turns the reactor.
  ActorPool& pool() noexcept { return pool_; }

  /// What comes of a message or call for a port.
  enum class Delivery { not_mine, taken, returned };
  /// `returned`: it was answered with an error, or given back to its sender. A message whose answer
  /// is reduced at this host (schemas/replies.fbs) is to an actor like a call. `point`: of a cast,
  /// where this rank is in its view.
  /// `owner` keeps a body above kBodyLimit, which is not copied.
  Delivery on_data(const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body,
                   const std::optional<Point>& point,
                   const std::shared_ptr<const void>& owner = nullptr);
  /// A message of ours to a subscriber came back: it is gone.
  void on_undelivered(const wire::Envelope& envelope) {
    requests_.on_undelivered(envelope.destination_proc());
  }

  /// Stops all of them, as StopActor; `done` is called when none is left, or only those that are
  /// stuck.
  void stop_all(const std::string& reason, Time end, std::function<void()> done);
  /// Any thread but one of the pool: ends the threads. False: some are stuck in a handler and go
  /// on.
  bool finish_threads();
  /// The handler of an actor that has run longest, if that is at least `limit`.
  std::optional<BusyHandler> find_busy(Time now, Clock::duration limit);
  /// Whether the caller is an actor.
  bool is_here() const noexcept { return pool_.is_here(); }

  // For ActorContext and ActorReply, on a thread of the pool.
  Result<ActorId> spawn_child(ActorCell& parent, const std::string& type, std::string_view params);
  void stop_child(ActorCell& parent, const ActorId& child, const std::string& reason,
                  std::chrono::milliseconds grace);
  void stop(ActorCell& cell, const std::string& reason, std::chrono::milliseconds grace);
  Result<std::uint64_t> send_after(ActorCell& cell, std::chrono::milliseconds delay,
                                   const MessageType& type, std::string_view body);
  void cancel(ActorCell& cell, std::uint64_t delayed);
  void call_async(ActorCell& cell, const ActorId& to, const MessageType& type,
                  const BodyParts& body, std::chrono::milliseconds deadline,
                  std::function<void(ActorContext&, Result<std::string>)> then);
  /// It fails with that as soon as its handler has returned. Any thread.
  void fail_later(ActorCell& cell, std::string why);
  Proc& proc() const noexcept { return proc_; }
  const Outside& outside() const noexcept { return outside_; }
  /// Any thread.
  void answer(const wire::Envelope& call, const wire::CallHeader& header,
              Result<std::string> answer);

  // For ActorCell, on a thread of the pool.
  void run(ActorCell& cell);

  // For ActorRequests; what follows lock() is called with it held.
  Lock lock() { return Lock(mutex_); }
  const ActorTable& table() const noexcept { return table_; }
  Result<std::shared_ptr<ActorCell>> make(const std::string& type, const Name& name,
                                          std::uint64_t pid, std::string params);
  void begin_stop(ActorCell& cell, const std::string& reason, Time end);
  /// The actors that have changed since it was asked last.
  std::vector<std::shared_ptr<ActorCell>> take_changed() { return std::exchange(changed_, {}); }

 private:
  /// Into its mailbox, with the lock held; or why not.
  std::optional<Error> put(ActorCell& cell, const wire::Envelope& envelope,
                           const wire::CallHeader& header, const Result<ActorBody>& body,
                           const std::optional<Point>& point,
                           const std::shared_ptr<const void>& owner);

  // actor_system.cpp: life. All with the lock held.
  void schedule(ActorCell& cell);
  void begin_stop_of_children(ActorCell& cell, const std::string& reason, Time end);
  void end_failed(ActorCell& cell, Fault fault);
  void tell_parent(ActorCell& cell);
  void on_ended(ActorCell& cell);
  void drop_mail(ActorCell& cell);
  void changed(ActorCell& cell);
  void later(std::function<void()> task);

  // actor_run.cpp: on a thread of the pool.
  /// With the lock held.
  void begin_step(ActorCell& cell, std::string name, Time now);
  std::optional<ActorStep> next_step(ActorCell& cell);
  /// False: it is over with the actor.
  bool settle(ActorCell& cell, const ActorStep& step, std::optional<Fault> fault);

  /// A large answer as it is sent. It is copied on the actor's own thread: within a visit everybody
  /// else would wait for that. One that is too large becomes an error.
  std::optional<SharedBody> hold_large(const wire::Envelope& call, const wire::CallHeader& header,
                                       Result<std::string>& answer) const;
  /// Answers a call, or gives a message back. On the reactor's thread.
  void tell(const wire::Envelope& envelope, const wire::CallHeader& header,
            const Result<std::string>& answer);
  void run_later();
  void arm_stop(const std::shared_ptr<ActorCell>& cell, Time end);
  void on_stop_over(const std::shared_ptr<ActorCell>& cell);
  void on_turn_end();
  void check_pool();

  Reactor& reactor_;
  Proc& proc_;
  const ProcId self_;
  const Types& types_;
  const Outside outside_;
  const ActorRunner runner_;
  ActorRequests requests_;
  Bus* bus_ = nullptr;
  ActorPool pool_;

  // Used by the reactor's thread.
  std::vector<std::shared_ptr<ActorPool::Runnable>> batch_;
  std::uint64_t turn_end_ = 0;
  Reactor::TimerId pool_timer_ = 0;
  std::vector<std::function<void()>> when_all_ended_;

  std::mutex mutex_;
  ActorTable table_;  // guarded by mutex_, like what follows
  /// What actors of each type have handlers for.
  std::map<std::string, ActorRunner::Messages> messages_;
  /// Those that do something now: as many as the pool has threads at most.
  std::vector<const ActorCell*> busy_;
  std::vector<std::shared_ptr<ActorCell>> changed_;
  std::vector<std::function<void()>> later_;
  /// An actor has said something last, so that nobody was woken for it: its thread turns the
  /// reactor itself when it has nothing else to do.
  std::atomic<bool> is_unheard_{false};
  std::uint64_t next_delayed_ = 1;
  bool is_ending_ = false;
};

}  // namespace meshbus::mesh_proc
