#pragma once

#include <memory>
#include <string>
#include <utility>

#include <pybind11/pybind11.h>

#include "client/python/bind/errors.h"
#include "client/python/bind/inbox.h"
#include "client/python/launcher/asked_order.h"
#include "meshbus/client.h"

/// What Python holds of the library: owners that can be closed, and are shared with the threads
/// that work for them.
namespace meshbus::python {

/// An owner of the library. After close() every use raises.
template <typename Owner>
class Held {
 public:
  Held(std::shared_ptr<Owner> owner, const char* what) : owner_(std::move(owner)), what_(what) {}

  const std::shared_ptr<Owner>& get() const {
    if (!owner_) raise(Error(ErrorCode::refused, std::string("this ") + what_ + " is closed"));
    return owner_;
  }
  void close() {
    auto owner = std::move(owner_);  // others look at it with the GIL
    owner_ = nullptr;
    py::gil_scoped_release release;  // its end may wait for threads
    owner.reset();
  }

 private:
  std::shared_ptr<Owner> owner_;
  const char* what_;
};

struct PythonContext {
  Held<Context> held;
};

struct PythonHosts {
  std::shared_ptr<Context> context;
  Held<HostMesh> held;
  HostMeshRef ref;  // outlives the owner: repr() of a closed mesh needs it
};

struct PythonProcs {
  Held<ProcMesh> held;
  ProcMeshRef ref;
  std::shared_ptr<AskedOrders> orders = {};  ///< When it takes orders for another size.
};

/// Actors, all or some of them.
struct PythonActors {
  std::shared_ptr<Held<ActorMesh>> held;
  ActorView view;
};

void bind_context(py::module_& module);
void bind_hosts(py::module_& module);
void bind_procs(py::module_& module);
void bind_actors(py::module_& module);

}  // namespace meshbus::python
