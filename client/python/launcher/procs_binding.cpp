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
  return py::make_tuple(procs->ref(), ranks_of(report.came), values_of(report.gone));
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

auto carry_out_order(const PythonProcs& self, const std::shared_ptr<AskedOrder>& order,
                     const std::vector<std::string>& hosts) {
  std::vector<HostAddr> where;
  for (const auto& host : hosts) where.push_back(must(HostAddr::parse(host)));
  const auto procs = self.held.get();
  return ahead([order, where = std::move(where)] { return order->carry_out(where); },
               [procs](const ResizeReport& report) { return value_of_resize(procs, report); });
}

void close_procs(PythonProcs& self) {
  // An order that Python still looks at would be waited for.
  if (self.orders) self.orders->close();
  self.held.close();
}

py::list hosts_of(const AskedOrder& order) {
  py::list all;
  for (const auto& host : order.hosts) all.append(host.to_string());
  return all;
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
  py::class_<AskedOrder, std::shared_ptr<AskedOrder>>(module, "AskedOrder",
                                                      "An order for another size of a mesh.")
      .def_readonly("is_growth", &AskedOrder::is_growth)
      .def_property_readonly("hosts", &hosts_of)
      .def_readonly("blocks", &AskedOrder::blocks)
      .def_property_readonly("leaving",
                             [](const AskedOrder& order) { return ranks_of(order.leaving); })
      .def_property_readonly("requester",
                             [](const AskedOrder& order) { return text_of(order.requester); })
      .def("settle", &AskedOrder::settle, py::call_guard<py::gil_scoped_release>());
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
      .def("carry_out", &carry_out_order)
      .def("close", &close_procs);
}

}  // namespace meshbus::python
