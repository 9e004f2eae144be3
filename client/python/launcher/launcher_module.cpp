// The module meshbus._client: what a launcher needs. No C++ thread takes the GIL here: what these
// threads have to say goes into an Inbox or a Pending, and Python takes it from there.
#include "client/python/bind/bodies.h"
#include "client/python/bind/errors.h"
#include "client/python/bind/inbox.h"
#include "client/python/bind/pending.h"
#include "client/python/bind/places.h"
#include "client/python/launcher/launcher.h"
#include "client/python/launcher/report_values.h"

PYBIND11_MODULE(_client, module) {
  using namespace meshbus::python;
  module.doc() = "The C++ launcher library. Use the package meshbus instead.";
  module.def("set_error_factory", &set_error_factory);
  bind_bodies(module);
  bind_inbox(module);
  bind_pending(module);
  bind_proc_mesh_ref(module);
  bind_actors(module);
  bind_procs(module);
  bind_hosts(module);
  bind_context(module);
  set_reports_maker([](const std::vector<meshbus::RankReport>& reports) -> py::object {
    return values_of(reports);
  });
}
