#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshbus/actor_ref.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/point.h"
#include "meshbus/proc.h"
#include "meshbus/result.h"

// Hidden: they are declared outside of what the library shows.
namespace meshbus::mesh_proc {
struct ActorCell;
class ActorRunner;
class ActorSystem;
}  // namespace meshbus::mesh_proc

/// Actors: objects with a mailbox inside a proc. A program that has one of a kind:
///
///     #include <meshbus/actor.h>
///     struct Counter : meshbus::Actor {
///       explicit Counter(std::string_view start) : total(std::stoi(std::string(start))) {
///         on("add", [this](meshbus::ActorContext&, const meshbus::ActorMessage& message) {
///           return std::to_string(total += std::stoi(std::string(message.body)));
///         });
///       }
///       int total;
///     };
///     int main() { meshbus::bootstrap_or_die(meshbus::ProcProgram().actor<Counter>("counter")); }
///
/// and a launcher that makes one in every proc of a mesh and asks them all (meshbus/actor_mesh.h):
///
///     auto tally = must(procs.spawn_actors("counter", "tally", "40"));
///     auto sums = must(tally.call("add", "2", 10s));  // sums[3]: "42", or what went wrong there
///
/// Threads. An actor does one thing at a time: its constructor, then its handlers, one message
/// after the other, then on_stop() and its destructor. Different actors run side by side on a few
/// threads (ProcProgram::actor_threads), never on the library's own. A handler should not block;
/// one that computes for long is left its thread, and the others get a new one. Calls that wait for
/// an answer (Proc::call) fail with would_block there: use ActorContext::call_async.
///
/// Failure. An exception from a handler ends that actor, and no other: it is Failed, with the
/// message's type and what std::nested_exception tells of the causes; the caller gets
/// call_error; the owner is told; its children are stopped. An Error that a handler returns is an
/// answer like another: the actor lives on.
///
/// Order. Messages of one sender to one actor are handled in the order in which they were sent. Of
/// different senders there is none.
namespace [[gnu::visibility("default")]] meshbus {

class ActorContext;

/// What a message or a call brings to a handler. Valid during the handler; share() is for later.
struct ActorMessage {
  std::string_view body;  ///< What was sent.
  MessageType type = 0;   ///< What kind of message it is: which handler gets it.
  /// A call: somebody waits for what the handler returns. Otherwise what it returns is dropped; an
  /// Error is logged.
  bool is_call = false;
  /// The sender, by keys (meshbus/key.h): written by its broker, so nobody can speak as another.
  std::uint64_t source_proc = 0;
  std::uint64_t source_host = 0;  ///< Its host.
  /// The port of the actor that sent it (actor_port()), as its proc says; 0 = it was no actor.
  std::uint32_t source_actor = 0;
  /// The deadline of a call: its caller waits no longer. Calls that are late already never come to
  /// a handler.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  /// In a cast: where this rank is in the view that was addressed.
  std::optional<Point> point;
  /// What keeps `body`, for share(); null: nothing does.
  const std::shared_ptr<const void>* owner = nullptr;

  /// The body, for as long as one likes: above 1 MiB without a copy. See Incoming::share().
  SharedBody share() const { return SharedBody::keep(body, owner); }
};

/// How an actor failed.
struct ActorFailure {
  ActorId actor;  ///< Which one.
  /// What went wrong, in words: of an exception its what().
  std::string error;
  /// In which handler; empty: elsewhere (its constructor, say), as `error` tells.
  std::string message;
  /// What was behind it, the nearest cause first.
  std::vector<std::string> causes;
};

/// The base of all actors. Only the library calls what is virtual.
class Actor {
 public:
  Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;

  /// It was asked to stop; what was in its mailbox has been handled and its children have ended.
  /// Runs before the destructor, unless the actor has failed.
  virtual void on_stop(ActorContext& context, const std::string& reason);
  /// A child has failed. True: that is dealt with. False, or an exception: this actor fails too,
  /// with the child's failure as cause.
  virtual bool on_child_failed(ActorContext& context, const ActorFailure& failure);

 protected:
  using Handler = std::function<Result<std::string>(
      ActorContext&, const ActorMessage&)>;  ///< What takes a message, and answers a call.

  /// What to do with messages of that type: to be called by the constructor. `handler` takes
  /// (ActorContext&, const ActorMessage&); what it returns answers a call: a text, a Result, or
  /// nothing. Two for one type: the actor cannot be made (actor_spawn_error).
  template <typename Function>
  void on(const MessageType& type, Function handler) {
    if constexpr (std::is_void_v<
                      std::invoke_result_t<Function&, ActorContext&, const ActorMessage&>>) {
      add(type,
          [handler = std::move(handler)](
              ActorContext& context, const ActorMessage& message) mutable -> Result<std::string> {
            handler(context, message);
            return std::string();
          });
    } else {
      add(type, std::move(handler));
    }
  }
  /// The same for a member function: `on("add", &Counter::add)`.
  template <typename Self, typename Value>
  void on(const MessageType& type, Value (Self::*handler)(ActorContext&, const ActorMessage&)) {
    auto* const self = static_cast<Self*>(this);
    on(type, [self, handler](ActorContext& context, const ActorMessage& message) {
      return (self->*handler)(context, message);
    });
  }

 private:
  friend class mesh_proc::ActorRunner;
  struct Row {
    MessageType type;
    Handler handler;
  };
  void add(const MessageType& type, Handler handler);

  std::map<std::uint64_t, Row> rows_;
  std::string mistake_;
};

/// Answers one call later: see ActorContext::defer(). Copies answer the same call, once. When the
/// last one goes without an answer, the caller gets call_error. May be used on any thread.
class ActorReply {
 public:
  void answer(std::string body) const;  ///< With that value.
  void fail(const Error& error) const;  ///< With call_error, and this error in words.
  /// What was begun has failed, and the actor with it, as if its handler had thrown that: for
  /// messages, which nobody waits for. Nothing happens when the actor has ended.
  void fail_actor(const std::string& why) const;

 private:
  friend class ActorContext;
  struct State;
  explicit ActorReply(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// What an actor can do, and knows of itself. Handed to its constructor and handlers; only they may
/// use it, and what they call. share() is for others.
class ActorContext {
 public:
  ActorContext(const ActorContext&) = delete;
  ActorContext& operator=(const ActorContext&) = delete;

  const ActorId& id() const noexcept;  ///< Its address.
  /// Its rank in the actor mesh as that was made.
  std::uint64_t rank() const noexcept;
  Proc& proc() const noexcept;
  /// The actors of the same name in all procs of this proc's mesh: those that it can be spawned
  /// with.
  ActorMeshRef peers() const;
  /// About a child.
  std::optional<ActorId> parent() const;

  /// Sends a message that nobody answers; also to itself. Never waits. A body above 1 MiB leaves
  /// behind this call, and what this proc's actors send there next waits behind it. Errors:
  /// too_large (message.limit), queue_full (too much waits to leave). What comes back (the mailbox
  /// there is full, no such actor) is told by ProcProgram::on_undelivered.
  Result<void> send(const ActorId& to, const MessageType& type, const BodyParts& body);
  /// Asks an actor. Never waits: `then` is called with the answer like a handler, one at a time
  /// with all others; once, at the latest soon after the deadline, unless this actor has ended by
  /// then. Errors: as Proc::call.
  void call_async(const ActorId& to, const MessageType& type, const BodyParts& body,
                  std::chrono::milliseconds deadline,
                  std::function<void(ActorContext&, Result<std::string>)> then);

  /// Sends a message to itself after that time. Errors: queue_full when as many wait already as its
  /// mailbox takes. The number is for cancel().
  Result<std::uint64_t> send_after(std::chrono::milliseconds delay, const MessageType& type,
                                   std::string_view body);
  /// What was sent, or cancelled, already is left alone.
  void cancel(std::uint64_t delayed);

  /// Makes an actor of that type in this proc, with this one as its parent: NAME is the same, the
  /// pid is its own. It is there at once; if its constructor throws, on_child_failed() says so. It
  /// is stopped before its parent is. Errors: actor_type_not_registered; actor_spawn_error (this
  /// one is ending, or the port is taken).
  Result<ActorId> spawn(const std::string& type, std::string_view params);
  /// Asks a child to stop, within the grace; one that has ended is left alone.
  void stop_child(const ActorId& child, const std::string& reason,
                  std::chrono::milliseconds grace = std::chrono::seconds(10));
  /// This actor stops when the handler returns and its mailbox is empty, within the grace.
  void stop(const std::string& reason, std::chrono::milliseconds grace = std::chrono::seconds(10));

  /// For threads of the program's own, as long as the proc lives: there spawn(), stop_child(),
  /// stop(), id() and parent() may be called. Once the actor has ended, spawn() fails with
  /// actor_spawn_error, and the others do nothing.
  std::shared_ptr<ActorContext> share();

  /// In a handler of a call: what the handler returns is no answer, the reply is. Of a message: a
  /// reply that goes nowhere.
  ActorReply defer();

 private:
  friend struct mesh_proc::ActorCell;
  ActorContext(mesh_proc::ActorSystem& system, mesh_proc::ActorCell& cell)
      : system_(system), cell_(cell) {}

  mesh_proc::ActorSystem& system_;
  mesh_proc::ActorCell& cell_;
};

template <typename Type>
ProcProgram& ProcProgram::actor(const std::string& name, const ActorOptions& options) {
  static_assert(std::is_base_of_v<Actor, Type>, "an actor type derives from meshbus::Actor");
  return actor_type(
      name,
      [](ActorContext& context, std::string_view params) -> std::unique_ptr<Actor> {
        if constexpr (std::is_constructible_v<Type, ActorContext&, std::string_view>) {
          return std::make_unique<Type>(context, params);
        } else if constexpr (std::is_constructible_v<Type, std::string_view>) {
          return std::make_unique<Type>(params);
        } else {
          static_assert(
              std::is_constructible_v<Type>,
              "an actor is made from (ActorContext&, std::string_view), (std::string_view) or ()");
          return std::make_unique<Type>();
        }
      },
      options);
}

}  // namespace meshbus
