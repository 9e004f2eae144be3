#include "agent/host/services/resize_service.h"

#include <chrono>
#include <string>
#include <utility>

#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bootstrap_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {
namespace {

/// For the answer of a proc that was told; there is nothing to do when it does not come.
constexpr std::chrono::seconds kTellLimit{5};

}  // namespace

void ResizeService::add_rows(Dispatcher& handlers, const std::unique_ptr<ResizeService>& service) {
  handlers.on<wire::ResizeMesh>(Role::operate, row(service, &ResizeService::on_resize_mesh));
}

void ResizeService::tell(const Proc& proc) {
  const Mesh& mesh = proc.mesh;
  if (mesh.spec.revision == 0 || mesh.spec.kind != wire::ProcKind::mesh) return;
  wire::WorldChangedT changed;
  changed.layout = to_wire(mesh.spec.layout());
  bus_.request(Destination::to(proc.address), std::move(changed), kTellLimit,
               [](const Result<ControlMessage>& answer) {
                 if (!answer) log::debug("WorldChanged: " + answer.error().to_string());
               });
}

void ResizeService::on_resize_mesh(const Request& request, const wire::ResizeMesh& message) {
  Mesh* const mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const MeshOwnership& ownership = mesh->ownership;
  if (ownership.is_gone() || !is_sender(request.envelope, ownership.owner()))
    return checks_.refuse(
        request,
        Error(ErrorCode::unauthorised,
              "mesh " + mesh->name + ": its size is for its owner to change, " +
                  (ownership.is_gone() ? "and it has none" : ownership.owner().to_string())));
  const auto layout = from_wire(*message.layout());
  if (!layout) return checks_.refuse(request, layout.error().within("ResizeMesh"));
  const auto before = mesh->spec.revision;
  const auto is_present = procs_.resize(*mesh, *layout);
  if (!is_present) return checks_.refuse(request, is_present.error());
  checks_.ack(request);
  if (!*is_present) return;
  if (before != layout->revision)
    log::info("mesh " + mesh->name + " has " + std::to_string(layout->region.num_ranks()) +
              " ranks now");
  mesh->updates.set_resized();
  procs_.table().mark_changed(*mesh);
  for (const auto& [rank, proc] : mesh->procs) {
    if (proc->state.state() == wire::ProcState::ready) tell(*proc);
  }
}

}  // namespace meshbus::host
