#include <pybind11/stl.h>

#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/launcher/helper_threads.h"
#include "client/python/launcher/launcher.h"
#include "client/python/launcher/report_values.h"

namespace meshbus::python {
namespace {

using Ranks = std::vector<std::uint64_t>;

auto status_of_procs(const PythonProcs& self, double timeout) {
  return ahead(
      [procs = self.held.get(), timeout] { return procs->status(milliseconds_of(timeout)); },
      [](const std::vector<RankReport>& reports) { return py::object(values_of(reports)); });
}

auto stop_procs(const PythonProcs& self, const Ranks& ranks, std::string reason,
                std::optional<double> grace, std::optional<double> timeout) {
  StopOptions options{.reason = std::move(reason), .ranks = to_rank_set(ranks)};
  if (grace) options.grace = milliseconds_of(*grace);
  if (timeout) options.deadline = milliseconds_of(*timeout);
  return ahead([procs = self.held.get(), options] { return procs->stop(options); },
               [](const MeshOutcome& outcome) { return py::object(value_of(outcome)); });
}

/// (the reference of the mesh now, the ranks that came, the reports of those that are gone)
py::object value_of_resize(const std::shared_ptr<ProcMesh>& procs, const ResizeReport& report) {
  Ranks came;
  for (const auto& block : report.came) {
    for (auto rank = block.begin; rank < block.end; ++rank) came.push_back(rank);
  }
  return py::make_tuple(procs->ref(), came, values_of(report.gone));
}

auto grow_procs(const PythonProcs& self, const std::vector<std::string>& hosts,
                std::uint64_t blocks) {
  GrowOptions options{.blocks = blocks};
  for (const auto& host : hosts) options.hosts.push_back(must(HostAddr::parse(host)));
  const auto procs = self.held.get();
  return ahead_until(
      [procs, options](std::stop_token stop) mutable {
        options.stop = std::move(stop);
        return procs->grow(options);
      },
      [procs](const ResizeReport& report) { return value_of_resize(procs, report); });
}

auto shrink_procs(const PythonProcs& self, std::uint64_t blocks, std::string reason,
                  std::optional<double> grace, std::optional<double> timeout) {
  ShrinkOptions options{.blocks = blocks, .reason = std::move(reason)};
  if (grace) options.grace = milliseconds_of(*grace);
  if (timeout) options.deadline = milliseconds_of(*timeout);
  const auto procs = self.held.get();
  return ahead([procs, options] { return procs->shrink(options); },
               [procs](const ResizeReport& report) { return value_of_resize(procs, report); });
}

auto signal_procs(const PythonProcs& self, const Ranks& ranks, int number) {
  return ahead([procs = self.held.get(), ranks = to_rank_set(ranks), number] {
    return procs->signal(ranks, number);
  });
}

auto write_input(const PythonProcs& self, std::uint64_t rank, const py::bytes& bytes) {
  return ahead([procs = self.held.get(), rank, text = std::string(bytes)] {
    return procs->write_input(rank, text);
  });
}

auto close_input(const PythonProcs& self, std::uint64_t rank) {
  return ahead([procs = self.held.get(), rank] { return procs->close_input(rank); });
}

HandoverOptions handover_options(bool detach, std::optional<double> lease, double timeout) {
  HandoverOptions options{.detach = detach, .lease = {}, .deadline = milliseconds_of(timeout)};
  if (lease) options.lease = milliseconds_of(*lease);
  return options;
}

auto hand_over_procs(const PythonProcs& self, const std::string& controller, bool detach,
                     std::optional<double> lease, double timeout) {
  return ahead([procs = self.held.get(), to = must(ProcId::parse(controller)),
                options = handover_options(detach, lease, timeout)] {
    return procs->handover(to, options);
  });
}

auto spawn_actors(const PythonProcs& self, std::string type, std::string name,
                  const py::bytes& params, const ProcMeshRef& ref, std::optional<double> timeout,
                  bool again, const std::shared_ptr<Inbox>& inbox) {
  ActorSpawnOptions options;
  options.again = again;
  options.region = ref.region();
  if (timeout) options.deadline = milliseconds_of(*timeout);
  options.on_failure = [inbox](const ActorReport& report) {
    inbox->push([report] { return py::make_tuple("actor", value_of(report)); });
  };
  return ahead([procs = self.held.get(), type = std::move(type), name = std::move(name),
                text = std::string(params),
                options] { return procs->spawn_actors(type, name, text, options); },
               [](ActorMesh actors) {
                 auto view = actors.all();
                 auto held = std::make_shared<Held<ActorMesh>>(
                     std::make_shared<ActorMesh>(std::move(actors)), "mesh of actors");
                 return py::cast(PythonActors{std::move(held), std::move(view)});
               });
}

}  // namespace

void bind_procs(py::module_& module) {
  py::class_<PythonProcs>(module, "ProcMesh", "Processes that this launcher owns.")
      .def_readonly("ref", &PythonProcs::ref)
      .def("known",
           [](const PythonProcs& self) {
             return value_of(without_gil([procs = self.held.get()] { return procs->known(); }));
           })
      .def("bindings",
           [](const PythonProcs& self) { return value_of(self.held.get()->bindings()); })
      .def("status", &status_of_procs)
      .def("stop", &stop_procs)
      .def("grow", &grow_procs)
      .def("shrink", &shrink_procs)
      .def("signal", &signal_procs)
      .def("write_input", &write_input)
      .def("close_input", &close_input)
      .def("handover", &hand_over_procs)
      .def("spawn_actors", &spawn_actors)
      .def("close", [](PythonProcs& self) { self.held.close(); });
}

}  // namespace meshbus::python
