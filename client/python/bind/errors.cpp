#include "client/python/bind/errors.h"

#include <string>

namespace meshbus::python {
namespace {

PyObject* error_factory = nullptr;  // never given up: it is needed until the interpreter ends
py::object (*reports_maker)(const std::vector<RankReport>&) = nullptr;

}  // namespace

void set_error_factory(py::object make) {
  error_factory = make.release().ptr();
}

void set_reports_maker(py::object (*make)(const std::vector<RankReport>& reports)) {
  reports_maker = make;
}

py::object exception_of(const Error& error) {
  if (error_factory == nullptr)
    return py::reinterpret_borrow<py::object>(PyExc_RuntimeError)(error.to_string());
  const auto make = py::reinterpret_borrow<py::object>(error_factory);
  const auto position = error.position();
  // A detail may quote bytes of a program, which need not be UTF-8.
  const auto& detail = error.detail();
  auto text = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(detail.data(), static_cast<Py_ssize_t>(detail.size()), "replace"));
  const auto& reports = error.reports();
  return make(
      std::string(to_string(error.code())), text,
      position ? py::object(py::int_(*position)) : py::object(py::none()),
      reports && reports_maker != nullptr ? reports_maker(*reports) : py::object(py::none()));
}

void raise(const Error& error) {
  const auto exception = exception_of(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace meshbus::python
