#include "agent/host/services/resize_service.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
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
/// The owner of a mesh gives an order up after its limit, and undoes what it has begun.
constexpr std::chrono::seconds kOrderSlack{12};
/// No order takes longer.
constexpr std::uint32_t kLongestOrderMs = 24 * 3600 * 1000;

/// The owner did not say no: it did not get the order, or its answer did not come.
bool is_unheard(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::undeliverable:
    case ErrorCode::host_unreachable:
    case ErrorCode::no_such_host:
    case ErrorCode::no_such_proc:
    case ErrorCode::expired:
    case ErrorCode::link_lost: return true;
    default: return false;
  }
}

}  // namespace

void ResizeService::add_rows(Dispatcher& handlers, const std::unique_ptr<ResizeService>& service) {
  handlers.on<wire::ResizeMesh>(Role::operate, row(service, &ResizeService::on_resize_mesh))
      .on<wire::OrderResize>(Role::operate, row(service, &ResizeService::on_order_resize));
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
              " ranks now, in layout " + std::to_string(layout->revision));
  mesh->updates.set_resized();
  procs_.table().mark_changed(*mesh);
  for (const auto& [rank, proc] : mesh->procs) {
    if (proc->state.state() == wire::ProcState::ready) tell(*proc);
  }
}

void ResizeService::on_order_resize(const Request& request, const wire::OrderResize& message) {
  const Mesh* const mesh = checks_.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const MeshOwnership& ownership = mesh->ownership;
  if (ownership.is_gone())
    return checks_.refuse(
        request, Error(ErrorCode::refused,
                       "mesh " + mesh->name + " has no owner that could give it another size"));
  wire::OrderResizeT order;
  message.UnPackTo(&order);
  order.limit_ms = std::min(order.limit_ms, kLongestOrderMs);
  order.requester = short_text(message.requester());
  const auto limit = std::chrono::milliseconds(order.limit_ms) + kOrderSlack;
  log::info("mesh " + mesh->name + ": an order to " + (order.shrink ? "shrink" : "grow") +
            " it goes to its owner " + ownership.owner().to_string());
  bus_.request(
      Destination::to(ownership.owner()), std::move(order), limit,
      [this, request, name = mesh->name, owner = ownership.owner()](
          const Result<ControlMessage>& answer) { pass_answer(request, name, owner, answer); });
}

void ResizeService::pass_answer(const Request& request, const std::string& mesh,
                                const ProcId& owner, const Result<ControlMessage>& answer) {
  const auto whose = "mesh " + mesh + ": its owner " + owner.to_string();
  if (!answer) {
    const auto& error = answer.error();
    if (error.code() == ErrorCode::no_such_port)
      return checks_.refuse(
          request, Error(ErrorCode::refused,
                         whose + " takes no orders for another size: it is of a release without"));
    if (is_unheard(error.code()))
      return checks_.refuse(
          request,
          Error(error.code() == ErrorCode::timeout ? error.code() : ErrorCode::fate_unknown,
                whose + " has not answered: " + error.detail()));
    return checks_.refuse(request, error);
  }
  const auto* const resized = answer->body_as<wire::MeshResized>();
  if (resized == nullptr)
    return checks_.refuse(
        request, Error(ErrorCode::malformed_message, whose + " answered " + answer->body_name()));
  wire::MeshResizedT copy;
  resized->UnPackTo(&copy);
  bus_.answer(request, std::move(copy));
}

}  // namespace meshbus::host
