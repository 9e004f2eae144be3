#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <pybind11/pybind11.h>

#include "meshbus/actor.h"

namespace meshbus::python {

namespace py = pybind11;

/// Sets what makes the adapter of an actor (meshbus/_adapter.py): make(params, rank, id, peers,
/// context).
void set_actor_factory(py::object make);

/// An actor whose handlers are Python's. Its adapter has `names`, handle(), on_stop() and
/// on_child_failed().
class PythonActor : public Actor {
 public:
  PythonActor(ActorContext& context, std::string_view params);
  ~PythonActor() override;

  void on_stop(ActorContext& context, const std::string& reason) override;
  bool on_child_failed(ActorContext& context, const ActorFailure& failure) override;

 private:
  /// Needs the GIL.
  void let_go();
  /// `name`: that of the endpoint, as a Python text.
  Result<std::string> handle(py::handle name, ActorContext& context, const ActorMessage& message);

  py::object adapter_;
  /// What every message needs of it: its handle(), and the names of its endpoints.
  py::object handle_;
  py::object names_;
};

/// Adds the class Reply to a module.
void bind_reply(py::module_& module);

}  // namespace meshbus::python
