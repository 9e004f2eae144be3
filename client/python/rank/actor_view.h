#pragma once

#include <pybind11/pybind11.h>

namespace meshbus::python {

/// Adds the class Actors to a module: actors of one name, all or some of them, as this rank calls
/// them. They may be of any mesh; nobody looks whether they are there.
void bind_actor_view(pybind11::module_& module);

}  // namespace meshbus::python
