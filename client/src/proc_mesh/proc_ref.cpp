#include "meshbus/proc_ref.h"

#include "meshbus/logs.h"
#include "meshbus/mesh_statuses.h"
#include "meshbus/region.h"

namespace meshbus {
namespace {

/// The rank as a mesh of its own: its host is asked by rank, wherever the others of the mesh lie.
/// Errors: configuration_error: it is no rank.
Result<ProcMeshRef> alone(const ProcId& proc) {
  const auto rank = parse_proc_name(proc.name());
  if (!rank)
    return fail(ErrorCode::configuration_error, "expected a rank of a mesh (HOST,BASE_RANK-UUID)");
  auto only = Region::make({}, rank->create_rank, {}, {});
  if (!only) return fail(only.error());
  return ProcMeshRef::make(rank->mesh, {proc.host()}, rank->create_rank + 1, std::move(*only));
}

}  // namespace

Result<ProcRef> ProcRef::parse(std::string_view address) {
  auto id = ProcId::parse(address);
  if (id) return ProcRef(std::move(*id));
  // The commas of an actor's id make no address of a proc, and the parser cannot know what was
  // meant.
  if (ActorId::parse(address))
    return fail(id.error().code(), "proc reference: expected HOST,PROC, found an actor, '" +
                                       std::string(address) +
                                       "'; ProcRef::of_agent() takes the id of a proc's agent");
  return fail(id.error().within("proc reference"));
}

Result<ProcRef> ProcRef::of_agent(std::string_view agent) {
  const auto id = ActorId::parse(agent);
  if (!id) return fail(id.error().within("proc reference: expected PROC,agent[0]"));
  if (*id != id->proc().agent())
    return fail(ErrorCode::parse_error, "proc reference: expected PROC,agent[0], found the actor " +
                                            id->name().to_string() + "[" +
                                            std::to_string(id->pid()) + "]");
  return ProcRef(id->proc());
}

Result<ProcRef> ProcRef::of_rank(const ProcMeshRef& mesh, std::uint64_t ordinal) {
  auto id = mesh.proc_at(ordinal);
  if (!id) return fail(id.error());
  return ProcRef(std::move(*id));
}

Result<ProcRef> ProcRef::of_rank(std::string_view mesh, std::uint64_t ordinal) {
  const auto ref = ProcMeshRef::parse(mesh);
  return ref ? of_rank(*ref, ordinal) : fail(ref.error());
}

Result<Status> ProcRef::status(Context& context, std::chrono::milliseconds deadline) const {
  const auto mesh = alone(id_);
  if (!mesh) return fail(mesh.error().within("status of " + id_.to_string()));
  const auto told = MeshStatuses::ask(context, *mesh, deadline);
  if (!told) return fail(told.error());
  if (!told->unreachable.empty())
    return fail(told->unreachable.begin()->second.within("status of " + id_.to_string()));
  return *told->statuses.get(0);
}

Result<LogStream> ProcRef::logs(Context& context, LogOptions options, LogHandlers handlers) const {
  const auto mesh = alone(id_);
  if (!mesh) return fail(mesh.error().within("logs of " + id_.to_string()));
  options.ranks.clear();
  return LogStream::open(context, *mesh, std::move(options), std::move(handlers));
}

}  // namespace meshbus
