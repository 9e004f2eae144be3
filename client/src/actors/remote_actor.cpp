#include "meshbus/remote_actor.h"

#include "client/src/base/time_left.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/gateway_search.h"
#include "client/src/monitors/actor_monitor.h"
#include "common/address/actor_words.h"
#include "common/wire/actor_body.h"
#include "wire/actors_generated.h"

namespace meshbus {

Result<ActorRef> ActorRef::parse(std::string_view id) {
  auto parsed = ActorId::parse(id);
  if (!parsed) return fail(parsed.error().within("actor reference: expected PROC,NAME[pid]"));
  if (parsed->name() == Name::agent())
    return fail(ErrorCode::parse_error,
                "actor reference: expected the actor of a program, found the agent of the proc " +
                    parsed->proc().to_string() + "; ProcRef::of_agent() takes it");
  return ActorRef(std::move(*parsed));
}

Result<ActorRef> ActorRef::of_rank(const ActorMeshRef& mesh, std::uint64_t ordinal) {
  auto id = mesh.actor_at(ordinal);
  if (!id) return fail(id.error());
  return ActorRef(std::move(*id));
}

Result<ActorRef> ActorRef::of_rank(std::string_view mesh, std::uint64_t ordinal) {
  const auto ref = ActorMeshRef::parse(mesh);
  return ref ? of_rank(*ref, ordinal) : fail(ref.error());
}

Result<std::string> ActorRef::call(Context& context, const MessageType& type, const BodyParts& body,
                                   std::chrono::milliseconds deadline) const {
  auto answer = context.call(id_.proc(), actor_port(id_), ActorBodyParts(type, 0, body), deadline);
  return answer ? answer : fail(in_names(answer.error(), id_, type));
}

void ActorRef::call_async(Context& context, const MessageType& type, const BodyParts& body,
                          AsyncOptions options, AnswerHandler handler) const {
  context.call_async(id_.proc(), actor_port(id_), ActorBodyParts(type, 0, body), std::move(options),
                     [id = id_, type, handler = std::move(handler)](Result<std::string> answer) {
                       if (!answer) answer = fail(in_names(answer.error(), id, type));
                       handler(std::move(answer));
                     });
}

Result<void> ActorRef::send(Context& context, const MessageType& type,
                            const BodyParts& body) const {
  return context.send(id_.proc(), actor_port(id_), ActorBodyParts(type, 0, body));
}

Result<Status> ActorRef::status(Context& context, std::chrono::milliseconds deadline) const {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  const auto context_words = "status of " + id_.to_string();
  const auto end = std::chrono::steady_clock::now() + Calls::clamp(deadline);
  const auto& host = id_.proc().host();
  auto way = find_way(core, {host}, Calls::clamp(deadline));
  if (const auto problem = way.problems.find(host); problem != way.problems.end())
    return fail(problem->second.within(context_words));
  if (way.connection.get() == nullptr)
    return fail(ErrorCode::unroutable, context_words + ": no way to " + host.to_string());
  wire::GetActorStateT get;
  get.name = id_.name().to_string();
  get.pid = id_.pid();
  const auto answer =
      way.connection->ask(Destination::to(id_.proc()), std::move(get), left_until(end)).get();
  if (!answer && answer.error().code() == ErrorCode::not_exist)
    return Status(Status::Kind::not_exist);
  if (!answer) return fail(answer.error().within(context_words));
  const auto* const state = answer->body_as<wire::ActorState>();
  if (state == nullptr)
    return fail(ErrorCode::malformed_message,
                context_words + ": its proc answered " + answer->body_name());
  return to_report(*state).status;
}

}  // namespace meshbus
