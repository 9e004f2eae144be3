#pragma once

#include <pybind11/pybind11.h>

namespace meshbus::python {

/// Adds what meshbus/template.py needs of the kernel to a module: copy_process(), tie_to_parent()
/// and set_command_line().
void bind_template(pybind11::module_& module);

}  // namespace meshbus::python
