#pragma once

#include <chrono>
#include <compare>
#include <string>
#include <string_view>
#include <utility>

#include "meshbus/actor_mesh.h"
#include "meshbus/actor_ref.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/context.h"
#include "meshbus/proc_ref.h"
#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// Names one actor. A plain value: copy it, print its id, send it to another process. Keeps nothing
/// alive.
///
///     auto tally = *ActorRef::parse("tcp:h1:7420,trainers_3-13Se1Maqzryj,tally[0]");
///     auto sum = *tally.call(context, "add", "2");
class ActorRef {
 public:
  explicit ActorRef(ActorId id) : id_(std::move(id)) {}  ///< Whether it is there or not.
  /// The actor of an id as id() prints it; `[0]` may be left out. Errors: parse_error, also for the
  /// agent of a proc: that is no actor of a program.
  [[nodiscard]] static Result<ActorRef> parse(std::string_view id);
  /// The actor at that ordinal of a mesh, or of a slice of it. Errors: out_of_range; those of
  /// ActorMeshRef::parse.
  [[nodiscard]] static Result<ActorRef> of_rank(const ActorMeshRef& mesh, std::uint64_t ordinal);
  [[nodiscard]] static Result<ActorRef> of_rank(std::string_view mesh, std::uint64_t ordinal);

  const ActorId& id() const noexcept { return id_; }    ///< Its address.
  ProcRef proc() const { return ProcRef(id_.proc()); }  ///< Where it lives.

  /// Asks it and waits for the answer. Errors: as ActorView::call for one rank; unroutable when the
  /// Context has no host mesh.
  [[nodiscard]] Result<std::string> call(
      Context& context, const MessageType& type, const BodyParts& body,
      std::chrono::milliseconds deadline = std::chrono::seconds(30)) const;
  /// The same without waiting: Context::call_async.
  void call_async(Context& context, const MessageType& type, const BodyParts& body,
                  AsyncOptions options, AnswerHandler handler) const;
  /// A message that nobody answers: Context::send.
  [[nodiscard]] Result<void> send(Context& context, const MessageType& type,
                                  const BodyParts& body) const;

  /// How it is, asked of its proc now; NotExist: the proc has no such actor (any more). The Context
  /// needs no host mesh, as with MeshStatuses::ask. Errors: no_such_proc (its proc is not there),
  /// host_unreachable, timeout; would_block, refused (after fork).
  [[nodiscard]] Result<Status> status(
      Context& context, std::chrono::milliseconds deadline = std::chrono::seconds(3)) const;

  friend auto operator<=>(const ActorRef&, const ActorRef&) = default;
  friend bool operator==(const ActorRef&, const ActorRef&) = default;

 private:
  ActorId id_;
};

}  // namespace meshbus
