#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <pybind11/pybind11.h>

#include "meshbus/result.h"

namespace meshbus::python {

namespace py = pybind11;

/// Bytes that came, which Python reads and writes by its buffer protocol.
struct Body {
  std::string bytes;
};

/// The bytes of a bytes-like object, or of a list of these one behind the other: one copy.
std::string gather(py::handle parts);

/// A Body, or the exception.
py::object answer_of(Result<std::string> answer);

/// A list with a Body or an exception for each answer.
py::object answers_of(std::vector<Result<std::string>> answers);

/// A text that need not be UTF-8, as what a program wrote.
py::str text_of(std::string_view bytes);

/// Adds the class Body to a module. Blocks of up to 32 MiB come from the heap from then on, and
/// stay there: an array that is mapped anew for each message costs more in page faults than in
/// copies.
void bind_bodies(py::module_& module);

}  // namespace meshbus::python
