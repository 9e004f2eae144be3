#pragma once

#include <pybind11/pybind11.h>

namespace meshbus::python {

/// Adds the class ActorContext to a module: what Python has of the context of an actor, also after
/// its end. The GIL is released while the library has its locks.
void bind_context_handle(pybind11::module_& module);

}  // namespace meshbus::python
