#include "client/python/bind/places.h"

namespace meshbus::python {

void bind_proc_mesh_ref(py::module_& module) {
  py::class_<ProcMeshRef>(module, "ProcMeshRef", py::module_local(),
                          "Names the procs of a mesh, or of a slice of it.")
      .def_static("parse", [](const std::string& text) { return must(ProcMeshRef::parse(text)); })
      .def("range", [](const ProcMeshRef& ref, const std::string& label, std::uint64_t begin,
                       std::optional<std::uint64_t> end,
                       std::uint64_t step) { return must(ref.range(label, begin, end, step)); })
      .def("at", [](const ProcMeshRef& ref, const std::string& label,
                    std::uint64_t index) { return must(ref.at(label, index)); })
      .def("create_rank", [](const ProcMeshRef& ref,
                             std::uint64_t ordinal) { return must(ref.create_rank(ordinal)); })
      .def("proc_at", [](const ProcMeshRef& ref,
                         std::uint64_t ordinal) { return must(ref.proc_at(ordinal)).to_string(); })
      .def_property_readonly("hosts",
                             [](const ProcMeshRef& ref) {
                               std::vector<std::string> hosts;
                               for (const auto& host : ref.hosts())
                                 hosts.push_back(host.to_string());
                               return hosts;
                             })
      .def_property_readonly("name", [](const ProcMeshRef& ref) { return ref.mesh().to_string(); })
      .def_property_readonly("shape", [](const ProcMeshRef& ref) { return shape_of(ref.region()); })
      .def("__len__", &ProcMeshRef::num_ranks)
      .def("__str__", &ProcMeshRef::to_string)
      .def("__hash__", [](const ProcMeshRef& ref) { return std::hash<ProcMeshRef>()(ref); })
      .def("__eq__", [](const ProcMeshRef& a, const ProcMeshRef& b) { return a == b; });
}

}  // namespace meshbus::python
