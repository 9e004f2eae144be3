#pragma once

#include <pybind11/pybind11.h>

#include "meshbus/actor_mesh.h"
#include "meshbus/proc_mesh.h"
#include "meshbus/rank_report.h"

/// Reports as Python dictionaries, of which meshbus/reports.py makes its classes.
namespace meshbus::python {

namespace py = pybind11;

/// The numbers of the ranks.
py::list ranks_of(const RankSet& ranks);
py::dict value_of(const RankReport& report);
py::tuple value_of(const BindingMap& map);
py::dict value_of(const MeshOutcome& outcome);
py::dict value_of(const RestartReport& restart);
py::dict value_of(const MoveReport& move);
py::dict value_of(const ActorReport& report);

/// A list of such dictionaries.
template <typename Report>
py::list values_of(const std::vector<Report>& reports) {
  py::list all;
  for (const auto& report : reports) all.append(value_of(report));
  return all;
}

}  // namespace meshbus::python
