#pragma once

#include <memory>

#include <pybind11/pybind11.h>

#include "meshbus/actor.h"

namespace meshbus::python {

/// What Python has of the context of an actor. It may outlive the actor, and everything raises
/// then. With the GIL, which also keeps the actor alive meanwhile: its end needs it.
class ContextHandle {
 public:
  explicit ContextHandle(ActorContext& context) : context_(&context) {}
  ContextHandle(const ContextHandle&) = delete;
  ContextHandle& operator=(const ContextHandle&) = delete;

  /// The actor has ended.
  void let_go() { context_ = nullptr; }
  /// Raises when it has.
  ActorContext& get() const;

 private:
  ActorContext* context_;
};

/// Adds the class ActorContext to a module.
void bind_context_handle(pybind11::module_& module);

}  // namespace meshbus::python
