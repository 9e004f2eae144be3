#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/launcher/gathering.h"
#include "client/python/launcher/helper_threads.h"
#include "client/python/launcher/launcher.h"
#include "client/python/launcher/report_values.h"

namespace meshbus::python {
namespace {

auto call_actors(const PythonActors& self, const std::string& type, py::handle parts,
                 double timeout) {
  self.held->get();  // raises when they are closed
  const HeldParts body(parts);
  return gathered(self.view.size(), milliseconds_of(timeout),
                  [&](AsyncOptions options, RankAnswerHandler handler) {
                    self.view.call_async(type, body.parts(), std::move(options),
                                         std::move(handler));
                  });
}

auto stream_of_actors(const PythonActors& self, const std::string& type, py::handle parts,
                      double timeout, const std::shared_ptr<Inbox>& inbox) {
  self.held->get();
  const HeldParts body(parts);
  return streamed(
      inbox, milliseconds_of(timeout), [&](AsyncOptions options, RankAnswerHandler handler) {
        self.view.call_async(type, body.parts(), std::move(options), std::move(handler));
      });
}

auto send_to_actors(const PythonActors& self, const std::string& type, py::handle parts) {
  self.held->get();
  return sent(parts,
              [view = self.view, type](const BodyParts& body) { return view.send(type, body); });
}

auto reduce_actors(const PythonActors& self, const std::string& type, py::handle parts,
                   const std::string& reducer, double timeout) {
  self.held->get();
  return ahead(
      [view = self.view, type, body = gather(parts), reducer, timeout] {
        return view.accumulate(type, body, reducer, {.deadline = milliseconds_of(timeout)});
      },
      [](const Accumulation& all) {
        py::dict errors;
        for (const auto& [rank, error] : all.errors) errors[py::int_(rank)] = exception_of(error);
        const auto text =
            all.value ? py::object(text_of(to_text(*all.value))) : py::object(py::none());
        return py::object(py::make_tuple(text, errors, all.num_messages));
      });
}

auto states_of_actors(const PythonActors& self, double timeout) {
  self.held->get();
  return ahead([view = self.view, timeout] { return view.states(milliseconds_of(timeout)); },
               [](const std::vector<ActorReport>& all) { return py::object(values_of(all)); });
}

auto stop_actors(const PythonActors& self, std::string reason, double grace) {
  return ahead(
      [actors = self.held->get(), reason = std::move(reason), grace] {
        return actors->stop({.reason = reason, .grace = milliseconds_of(grace)});
      },
      [](const std::vector<ActorReport>& all) { return py::object(values_of(all)); });
}

}  // namespace

void bind_actors(py::module_& module) {
  py::class_<PythonActors>(module, "Actors", "Actors of one name, all or some of them.")
      .def_property_readonly(
          "shape", [](const PythonActors& self) { return shape_of(self.view.ref().region()); })
      .def_property_readonly("ref",
                             [](const PythonActors& self) { return self.view.ref().to_string(); })
      .def("range",
           [](const PythonActors& self, const std::string& label, std::uint64_t begin,
              std::optional<std::uint64_t> end, std::uint64_t step) {
             return PythonActors{self.held, must(self.view.range(label, begin, end, step))};
           })
      .def("at",
           [](const PythonActors& self, const std::string& label, std::uint64_t index) {
             return PythonActors{self.held, must(self.view.at(label, index))};
           })
      .def("create_rank",
           [](const PythonActors& self, std::uint64_t ordinal) {
             return must(self.view.ref().procs().create_rank(ordinal));
           })
      .def("__len__", [](const PythonActors& self) { return self.view.size(); })
      .def_static("inbox", [] { return std::make_shared<Inbox>(); })
      .def("call", &call_actors)
      .def("stream", &stream_of_actors)
      .def("send", &send_to_actors)
      .def("reduce", &reduce_actors)
      .def("states", &states_of_actors)
      .def("stop", &stop_actors)
      .def("close", [](PythonActors& self) { self.held->close(); });
}

}  // namespace meshbus::python
