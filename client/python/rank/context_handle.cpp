#include "client/python/rank/context_handle.h"

#include <chrono>
#include <string>
#include <string_view>

#include <pybind11/stl.h>

#include "client/python/bind/errors.h"
#include "client/python/bind/waiting.h"

namespace meshbus::python {

namespace py = pybind11;

ActorContext& ContextHandle::get() const {
  if (context_ == nullptr) raise(Error(ErrorCode::refused, "this actor has ended"));
  return *context_;
}

void bind_context_handle(py::module_& module) {
  py::class_<ContextHandle, std::shared_ptr<ContextHandle>>(module, "ActorContext",
                                                            "What an actor can do.")
      .def("spawn",
           [](const ContextHandle& self, const py::bytes& params) {
             return must(self.get().spawn("python", std::string_view(params))).to_string();
           })
      .def("stop_child",
           [](const ContextHandle& self, const std::string& child, const std::string& reason,
              double grace) {
             self.get().stop_child(must(ActorId::parse(child)), reason, milliseconds_of(grace));
           })
      .def("stop", [](const ContextHandle& self, const std::string& reason,
                      double grace) { self.get().stop(reason, milliseconds_of(grace)); })
      .def("parent", [](const ContextHandle& self) {
        const auto parent = self.get().parent();
        return parent ? std::optional(parent->to_string()) : std::nullopt;
      });
}

}  // namespace meshbus::python
