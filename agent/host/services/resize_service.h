#pragma once

#include <memory>
#include <string>

#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/request_checks.h"
#include "common/bus/bus.h"
#include "common/wire/dispatcher.h"
#include "wire/forward.h"

namespace meshbus::host {

/// Answers the owner of a mesh that has grown or shrunk, and tells the procs of it that are here
/// (docs/decisions/0062-a-mesh-grows-at-its-end.md); passes orders for another size on to the owner
/// (docs/decisions/0065-orders-for-another-size.md). Lives on the reactor's thread.
class ResizeService {
 public:
  ResizeService(Bus& bus, MeshProcs& procs, RequestChecks& checks)
      : bus_(bus), procs_(procs), checks_(checks) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<ResizeService>& service);

  /// The proc has become ready: it may know an earlier layout of its mesh.
  void tell(const Proc& proc);

 private:
  void on_resize_mesh(const Request& request, const wire::ResizeMesh& message);
  void on_order_resize(const Request& request, const wire::OrderResize& message);
  /// The owner's answer to an order, for the sender of it.
  void pass_answer(const Request& request, const std::string& mesh, const ProcId& owner,
                   const Result<ControlMessage>& answer);

  Bus& bus_;
  MeshProcs& procs_;
  RequestChecks& checks_;
};

}  // namespace meshbus::host
