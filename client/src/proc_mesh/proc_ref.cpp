#include "meshbus/proc_ref.h"

#include "meshbus/mesh_statuses.h"
#include "meshbus/region.h"

namespace meshbus {

Result<ProcRef> ProcRef::parse(std::string_view address) {
  auto id = ProcId::parse(address);
  if (id) return ProcRef(std::move(*id));
  // The commas of an actor's id make no address of a proc, and the parser cannot know what was
  // meant.
  if (ActorId::parse(address))
    return fail(id.error().code(),
                "proc reference: expected HOST,PROC, found an actor, '" + std::string(address) +
                    "'; ProcRef::of_agent() takes the id of a proc's agent");
  return fail(id.error().within("proc reference"));
}

Result<ProcRef> ProcRef::of_agent(std::string_view agent) {
  const auto id = ActorId::parse(agent);
  if (!id) return fail(id.error().within("proc reference: expected PROC,agent[0]"));
  if (*id != id->proc().agent())
    return fail(ErrorCode::parse_error,
                "proc reference: expected PROC,agent[0], found the actor " +
                    id->name().to_string() + "[" + std::to_string(id->pid()) + "]");
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
  const auto of = parse_proc_name(id_.name());
  if (!of)
    return fail(ErrorCode::configuration_error,
                "status of " + id_.to_string() + ": expected a rank of a mesh (HOST,BASE_RANK-UUID)");
  // The host is asked by rank, wherever else the ranks of that mesh lie.
  auto only = Region::make({}, of->create_rank, {}, {});
  if (!only) return fail(only.error());
  const auto mesh = ProcMeshRef::make(of->mesh, {id_.host()}, of->create_rank + 1, std::move(*only));
  if (!mesh) return fail(mesh.error());
  const auto told = MeshStatuses::ask(context, *mesh, deadline);
  if (!told) return fail(told.error());
  if (!told->unreachable.empty())
    return fail(told->unreachable.begin()->second.within("status of " + id_.to_string()));
  return *told->statuses.find(0);
}

}  // namespace meshbus
