// The module meshbus._proc: what a rank needs, on few libraries. Handlers of the library run Python
// on its own threads, with the GIL (InterpreterLock).
#include "client/python/bind/bodies.h"
#include "client/python/bind/errors.h"
#include "client/python/bind/inbox.h"
#include "client/python/bind/pending.h"
#include "client/python/bind/places.h"
#include "client/python/rank/actor_view.h"
#include "client/python/rank/context_handle.h"
#include "client/python/rank/python_actor.h"
#include "client/python/rank/rank.h"
#include "client/python/rank/template.h"

PYBIND11_MODULE(_proc, module) {
  using namespace meshbus::python;
  module.doc() = "The C++ library of ranks. Use the package meshbus instead.";
  module.def("set_error_factory", &set_error_factory);
  module.def("set_actor_factory", &set_actor_factory);
  bind_bodies(module);
  bind_inbox(module);
  bind_pending(module);
  bind_proc_mesh_ref(module);
  bind_reply(module);
  bind_rank(module);
  bind_actor_view(module);
  bind_context_handle(module);
  bind_template(module);
}
