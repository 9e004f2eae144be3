#pragma once

#include <pybind11/pybind11.h>

#include "meshbus/proc_mesh.h"

namespace meshbus::python {

/// The ProcSpec that a dictionary of meshbus/spec.py says. Unknown keys raise: they are a mistake
/// of the package.
ProcSpec spec_of(const pybind11::dict& spec);

}  // namespace meshbus::python
