#include "client/python/rank/context_handle.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <pybind11/stl.h>

#include "client/python/bind/errors.h"
#include "client/python/bind/waiting.h"
#include "meshbus/actor.h"

namespace meshbus::python {

namespace py = pybind11;

void bind_context_handle(py::module_& module) {
  py::class_<ActorContext, std::shared_ptr<ActorContext>>(module, "ActorContext",
                                                          "What an actor can do.")
      .def("spawn",
           [](ActorContext& self, const py::bytes& params) {
             const std::string_view view = params;
             return must(without_gil([&] { return self.spawn("python", view); })).to_string();
           })
      .def("stop_child",
           [](ActorContext& self, const std::string& child, const std::string& reason,
              double grace) {
             const auto id = must(ActorId::parse(child));
             without_gil([&] { self.stop_child(id, reason, milliseconds_of(grace)); });
           })
      .def("stop",
           [](ActorContext& self, const std::string& reason, double grace) {
             without_gil([&] { self.stop(reason, milliseconds_of(grace)); });
           })
      .def("parent", [](const ActorContext& self) {
        const auto parent = self.parent();
        return parent ? std::optional(parent->to_string()) : std::nullopt;
      });
}

}  // namespace meshbus::python
