#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/launcher/gathering.h"
#include "client/python/launcher/helper_threads.h"
#include "client/python/launcher/launcher.h"

namespace meshbus::python {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

PythonContext make_context(Settings settings) {
  auto made = without_gil([&] { return Context::create({.settings = std::move(settings)}); });
  return {{std::make_shared<Context>(must(std::move(made))), "context"}};
}

auto call_proc(const PythonContext& self, const ProcMeshRef& ref, std::uint64_t ordinal,
               std::uint32_t port, py::handle parts, double timeout) {
  const auto to = must(ref.proc_at(ordinal));
  const HeldParts body(parts);
  auto pending = std::make_shared<Pending>();
  without_gil([&, context = self.held.get()] {
    context->call_async(
        to, port, body.parts(),
        {.deadline = milliseconds_of(timeout), .stop = pending->stop_token(), .is_direct = true},
        [pending](Result<std::string> answer) {
          auto kept = std::make_shared<Result<std::string>>(std::move(answer));
          pending->fill([kept] {
            if (!*kept) raise(kept->error());
            return answer_of(std::move(*kept));
          });
        });
  });
  return pending;
}

auto call_procs(const PythonContext& self, const ProcMeshRef& ref, std::uint32_t port,
                py::handle parts, double timeout) {
  const HeldParts body(parts);
  return gathered(ref.num_ranks(), milliseconds_of(timeout),
                  [&, context = self.held.get()](AsyncOptions options, RankAnswerHandler handler) {
                    context->call_async(ref, port, body.parts(), std::move(options),
                                        std::move(handler));
                  });
}

auto send_to_proc(const PythonContext& self, const ProcMeshRef& ref, std::uint64_t ordinal,
                  std::uint32_t port, py::handle parts) {
  const auto to = must(ref.proc_at(ordinal));
  return sent(parts, [context = self.held.get(), to, port](const BodyParts& body) {
    return context->send(to, port, body);
  });
}

auto cast_to_procs(const PythonContext& self, const ProcMeshRef& ref, std::uint32_t port,
                   py::handle parts) {
  return sent(parts, [context = self.held.get(), ref, port](const BodyParts& body) {
    return context->cast(ref, port, body);
  });
}

/// Hosts that `make` makes, on a helper thread.
template <typename Make>
auto hosts_ahead(const PythonContext& self, Make make) {
  return ahead(
      [context = self.held.get(), make = std::move(make)] { return make(*context); },
      [context = self.held.get()](HostMesh hosts) {
        auto ref = hosts.ref();
        return py::cast(PythonHosts{
            context, {std::make_shared<HostMesh>(std::move(hosts)), "host mesh"}, std::move(ref)});
      });
}

HostOptions options_of(const std::string& program, const Settings& settings,
                       const std::string& containment, double ready) {
  return {.program = program,
          .containment = containment,
          .settings = settings,
          .ready_limit = milliseconds_of(ready)};
}

auto start_hosts(const PythonContext& self, Labels labels, Sizes sizes, std::string program,
                 Settings settings, std::string containment, double ready) {
  return hosts_ahead(
      self, [extent = extent_of(std::move(labels), std::move(sizes)),
             options = options_of(program, settings, containment, ready)](Context& context) {
        return HostMesh::process(context, extent, options);
      });
}

/// The hosts, if they are of that release; empty: whichever.
Result<HostMesh> of_release(Result<HostMesh> hosts, const std::string& release) {
  if (!hosts || release.empty()) return hosts;
  const auto states = hosts->states();
  if (!states) return fail(states.error());
  for (const auto& state : *states) {
    if (state.code == ErrorCode::none && state.version != release)
      return fail(ErrorCode::version_mismatch,
                  "host " + state.host.to_string() + " runs meshbus " + state.version +
                      ", the one in PATH there, and this package is of release " + release +
                      ": install that release there, or name a program by program=");
  }
  return hosts;
}

auto start_by_ssh(const PythonContext& self, const std::vector<std::string>& destinations,
                  const std::string& remote_program, Settings settings, std::string containment,
                  double ready, std::string release) {
  return hosts_ahead(self, [machines = must(ssh_hosts(destinations, remote_program)),
                            options = options_of({}, settings, containment, ready),
                            release = std::move(release)](Context& context) {
    return of_release(HostMesh::remote(context, machines, options), release);
  });
}

auto start_in_slurm(const PythonContext& self, const std::string& program, Settings settings,
                    std::string containment, double ready) {
  return hosts_ahead(self,
                     [machines = must(slurm_hosts(program)),
                      options = options_of({}, settings, containment, ready)](Context& context) {
                       return HostMesh::remote(context, machines, options);
                     });
}

auto attach_to(const PythonContext& self, HostMeshRef ref, double timeout, double wait,
               bool is_taken) {
  return hosts_ahead(self, [ref = std::move(ref), timeout, wait, is_taken](Context& context) {
    AttachOptions options;
    options.deadline = milliseconds_of(timeout);
    options.wait = milliseconds_of(wait);
    return is_taken ? HostMesh::take(context, ref, options)
                    : HostMesh::attach(context, ref, options);
  });
}

auto attach_addresses(const PythonContext& self, const std::string& name,
                      const std::vector<std::string>& addresses, double timeout, double wait,
                      bool is_taken) {
  std::vector<HostAddr> hosts;
  for (const auto& address : addresses) {
    auto host = HostAddr::parse(address);
    if (!host) raise(host.error().within("'" + address + "'"));
    hosts.push_back(std::move(*host));
  }
  const Region region(extent_of({"host"}, {hosts.size()}));
  auto ref = HostMeshRef::make(must(Name::parse(name)), region, std::move(hosts));
  return attach_to(self, must(std::move(ref)), timeout, wait, is_taken);
}

auto attach_reference(const PythonContext& self, const std::string& text, double timeout,
                      double wait, bool is_taken) {
  return attach_to(self, must(HostMeshRef::parse(text)), timeout, wait, is_taken);
}

}  // namespace

void bind_context(py::module_& module) {
  py::class_<PythonContext>(module, "Context", "A launcher's place on the bus.")
      .def(py::init(&make_context))
      .def("close", [](PythonContext& self) { self.held.close(); })
      .def("setting", [](const PythonContext& self,
                         const std::string& key) { return must(self.held.get()->setting(key)); })
      .def("warnings", [](const PythonContext& self) { return self.held.get()->warnings(); })
      .def("num_returned",
           [](const PythonContext& self) { return self.held.get()->num_returned(); })
      .def("call", &call_proc)
      .def("call_all", &call_procs)
      .def("send", &send_to_proc)
      .def("cast", &cast_to_procs)
      .def("process", &start_hosts)
      .def("ssh", &start_by_ssh)
      .def("slurm", &start_in_slurm)
      .def("attach", &attach_addresses)
      .def("attach_ref", &attach_reference);
}

}  // namespace meshbus::python
