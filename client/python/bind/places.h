#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "client/python/bind/errors.h"
#include "meshbus/point.h"
#include "meshbus/proc_mesh_ref.h"
#include "meshbus/region.h"

/// How Python sees where things are: plain tuples of labels and numbers.
namespace meshbus::python {

using Labels = std::vector<std::string>;
using Sizes = std::vector<std::uint64_t>;

/// An extent of labels and sizes, or its exception.
inline Extent extent_of(Labels labels, Sizes sizes) {
  return must(Extent::make(std::move(labels), std::move(sizes)));
}

/// (labels, sizes)
inline py::tuple shape_of(const Region& region) {
  return py::make_tuple(py::tuple(py::cast(region.labels())), py::tuple(py::cast(region.sizes())));
}

/// (labels, sizes, coordinates), or None.
inline py::object place_of(const std::optional<Point>& point) {
  if (!point) return py::none();
  return py::make_tuple(py::tuple(py::cast(point->extent().labels())),
                        py::tuple(py::cast(point->extent().sizes())),
                        py::tuple(py::cast(point->coordinates())));
}

/// Adds the class ProcMeshRef to a module.
void bind_proc_mesh_ref(py::module_& module);

}  // namespace meshbus::python
