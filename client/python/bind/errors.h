#pragma once

#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "meshbus/result.h"

namespace meshbus::python {

namespace py = pybind11;

/// Sets the function that makes an exception of an Error: make(code, detail, position, reports).
void set_error_factory(py::object make);

/// Sets what makes Python values of the reports of an error (Error::reports()).
void set_reports_maker(py::object (*make)(const std::vector<RankReport>& reports));

/// The exception of an error, for Python to raise or to keep.
py::object exception_of(const Error& error);

/// Raises it.
[[noreturn]] void raise(const Error& error);

/// The value, or the exception of the error.
template <typename T>
T must(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// What `work` returns, with the GIL released meanwhile.
template <typename Work>
auto without_gil(Work work) {
  py::gil_scoped_release release;
  return work();
}

}  // namespace meshbus::python
