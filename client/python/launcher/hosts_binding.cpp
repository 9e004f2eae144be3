#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/launcher/helper_threads.h"
#include "client/python/launcher/launcher.h"
#include "client/python/launcher/report_values.h"
#include "client/python/launcher/spec.h"

namespace meshbus::python {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Puts ("failure" | "state" | "restart" | "move" | "output" | "order" | "end", values...) into the
/// inbox. `orders`: those for another size; without it the mesh takes none.
Handlers handlers_of(const std::shared_ptr<Inbox>& inbox, bool is_streamed,
                     const std::shared_ptr<AskedOrders>& orders) {
  Handlers handlers;
  handlers.on_failure = [inbox](const RankReport& report) {
    inbox->push([report] { return py::make_tuple("failure", value_of(report)); });
  };
  handlers.on_state = [inbox](const RankReport& report) {
    inbox->push([report] { return py::make_tuple("state", value_of(report)); });
  };
  handlers.on_restart = [inbox](const RestartReport& restart) {
    inbox->push([restart] { return py::make_tuple("restart", value_of(restart)); });
  };
  handlers.on_move = [inbox](const MoveReport& move) {
    inbox->push([move] { return py::make_tuple("move", value_of(move)); });
  };
  handlers.on_end = [inbox](const MeshOutcome& outcome) {
    inbox->push([outcome] { return py::make_tuple("end", value_of(outcome)); });
  };
  if (is_streamed)
    handlers.on_output = [inbox](std::uint64_t rank, Stream stream, std::string_view bytes) {
      inbox->push([rank, stream, text = std::string(bytes)] {
        return py::make_tuple("output", rank, static_cast<int>(stream), py::bytes(text));
      });
    };
  if (orders)
    handlers.on_resize_order = [inbox, orders](const ResizeOrder& order) -> Result<ResizeReport> {
      const auto asked = orders->begin(order);
      if (!asked) return fail(ErrorCode::refused, AskedOrders::kClosed);
      inbox->push([asked] { return py::make_tuple("order", asked); });
      return asked->decide();
    };
  return handlers;
}

auto spawn_procs(const PythonHosts& self, std::string name, Labels labels, Sizes sizes,
                 const py::dict& spec, const std::shared_ptr<Inbox>& inbox, bool takes_orders) {
  auto made = spec_of(spec);
  const bool is_streamed = made.output == OutputMode::stream;
  auto orders = takes_orders ? std::make_shared<AskedOrders>() : nullptr;
  return ahead_until(
      [hosts = self.held.get(), name = std::move(name),
       per_host = extent_of(std::move(labels), std::move(sizes)), made = std::move(made),
       handlers = handlers_of(inbox, is_streamed, orders)](std::stop_token stop) mutable {
        made.stop = std::move(stop);
        return hosts->spawn(name, per_host, made, handlers);
      },
      [orders](ProcMesh procs) {
        auto ref = procs.ref();
        return py::cast(PythonProcs{{std::make_shared<ProcMesh>(std::move(procs)), "mesh of procs"},
                                    std::move(ref),
                                    orders});
      });
}

auto start_inside(const PythonHosts& self, Labels labels, Sizes sizes, const py::dict& spec,
                  std::vector<std::string> wrapper, const std::string& program,
                  const Settings& settings, const std::string& containment, double ready) {
  const auto made = spec_of(spec);
  return ahead(
      [hosts = self.held.get(), context = self.context,
       per_host = extent_of(std::move(labels), std::move(sizes)),
       options = InsideOptions{.host = {.program = program,
                                        .containment = containment,
                                        .settings = settings,
                                        .ready_limit = milliseconds_of(ready)},
                               .wrapper = std::move(wrapper),
                               .environment = made.environment,
                               .settings = made.settings}] {
        return HostMesh::inside(*context, *hosts, per_host, options);
      },
      [context = self.context](HostMesh inner) {
        auto ref = inner.ref();
        return py::cast(PythonHosts{
            context, {std::make_shared<HostMesh>(std::move(inner)), "host mesh"}, std::move(ref)});
      });
}

py::object summary_of(const ShutdownSummary& summary) {
  py::dict value;
  value["attempted"] = summary.attempted;
  value["ok"] = summary.ok;
  value["failed"] = summary.failed;
  value["hosts"] = summary.hosts;
  return value;
}

auto shut_hosts_down(const PythonHosts& self, double timeout, std::optional<double> grace,
                     std::string reason) {
  return ahead(
      [hosts = self.held.get(), timeout, grace, reason = std::move(reason)] {
        std::optional<std::chrono::milliseconds> given;
        if (grace) given = milliseconds_of(*grace);
        return hosts->shutdown(milliseconds_of(timeout), given, reason);
      },
      [](const ShutdownSummary& summary) { return summary_of(summary); });
}

auto drain_hosts(const PythonHosts& self, std::string mesh, std::string reason, bool hold,
                 std::optional<double> grace) {
  DrainOptions options{.mesh = std::move(mesh), .reason = std::move(reason), .hold = hold};
  if (grace) options.grace = milliseconds_of(*grace);
  return ahead([hosts = self.held.get(), options] { return hosts->drain(options); },
               [](const DrainSummary& summary) {
                 py::dict value;
                 value["attempted"] = summary.attempted;
                 value["ok"] = summary.ok;
                 value["failed"] = summary.failed;
                 return py::object(value);
               });
}

auto resume_hosts(const PythonHosts& self, std::string mesh) {
  return ahead([hosts = self.held.get(), mesh = std::move(mesh)] { return hosts->resume(mesh); });
}

py::object value_of_ordered(const OrderedResize& resize) {
  py::list hosts;
  for (const auto& host : resize.hosts) hosts.append(host.to_string());
  return py::make_tuple(resize.size, ranks_of(resize.ranks), hosts);
}

auto grow_mesh(const PythonHosts& self, std::string mesh, const std::vector<std::string>& hosts,
               std::uint64_t blocks, double timeout) {
  GrowOptions options{.blocks = blocks};
  for (const auto& host : hosts) options.hosts.push_back(must(HostAddr::parse(host)));
  return ahead([hosts = self.held.get(), mesh = std::move(mesh), options,
                timeout] { return hosts->grow_mesh(mesh, options, milliseconds_of(timeout)); },
               &value_of_ordered);
}

auto shrink_mesh(const PythonHosts& self, std::string mesh, std::uint64_t blocks,
                 std::optional<double> grace, double timeout) {
  ShrinkOptions options{.blocks = blocks};
  if (grace) options.grace = milliseconds_of(*grace);
  return ahead([hosts = self.held.get(), mesh = std::move(mesh), options,
                timeout] { return hosts->shrink_mesh(mesh, options, milliseconds_of(timeout)); },
               &value_of_ordered);
}

py::dict value_of_mesh(const MeshReport& mesh) {
  py::dict value;
  value["name"] = mesh.name;
  value["owner"] = mesh.owner;
  value["command"] = text_of(mesh.command);
  value["is_mesh"] = mesh.kind == ProcKind::mesh;
  value["shape"] = shape_of(mesh.region);
  value["ranks"] = values_of(mesh.ranks);
  return value;
}

/// (host, problem) of each that did not answer.
py::list silent_hosts(const std::vector<HostReport>& reports) {
  py::list all;
  for (const auto& host : reports)
    all.append(py::make_tuple(host.host.to_string(), text_of(host.problem)));
  return all;
}

auto meshes_on_hosts(const PythonHosts& self, double timeout) {
  return ahead(
      [hosts = self.held.get(), timeout] { return hosts->meshes(milliseconds_of(timeout)); },
      [](const MeshListing& listing) {
        py::list all;
        for (const auto& mesh : listing.meshes) all.append(value_of_mesh(mesh));
        return py::object(py::make_tuple(all, silent_hosts(listing.unreachable)));
      });
}

auto events_of_hosts(const PythonHosts& self, std::string mesh, double timeout) {
  return ahead(
      [hosts = self.held.get(), mesh = std::move(mesh), timeout] {
        return hosts->events(mesh, milliseconds_of(timeout));
      },
      [](const EventListing& listing) {
        py::list all;
        for (const auto& event : listing.events) {
          py::dict value;
          value["kind"] = to_string(event.kind);
          value["host"] = event.host.to_string();
          value["time"] = std::chrono::duration<double>(event.time.time_since_epoch()).count();
          value["mesh"] = event.mesh;
          value["by"] = event.by;
          value["text"] = text_of(event.text);
          value["end"] = event.end ? py::object(value_of(*event.end)) : py::object(py::none());
          all.append(value);
        }
        return py::object(py::make_tuple(all, silent_hosts(listing.unreachable)));
      });
}

/// Reads on until Python gives it up.
struct PythonLogs {
  std::optional<LogStream> stream;
};

auto logs_of_mesh(const PythonHosts& self, std::string mesh, std::vector<std::uint64_t> ranks,
                  std::uint64_t tail, bool follow, const std::shared_ptr<Inbox>& inbox) {
  return ahead(
      [hosts = self.held.get(), mesh = std::move(mesh), ranks = to_rank_set(ranks), tail, follow,
       inbox]() -> Result<std::shared_ptr<PythonLogs>> {
        const auto listing = hosts->meshes();
        if (!listing) return fail(listing.error());
        for (const auto& report : listing->meshes) {
          if (report.name != mesh) continue;
          LogHandlers handlers{
              .on_piece =
                  [inbox](const LogPiece& piece) {
                    inbox->push([rank = piece.rank, stream = piece.stream, missed = piece.missed,
                                 text = std::string(piece.bytes)] {
                      return py::make_tuple("piece", rank, static_cast<int>(stream),
                                            py::bytes(text), missed);
                    });
                  },
              .on_end =
                  [inbox](const Result<void>& end) {
                    inbox->push([end] {
                      return py::make_tuple(
                          "end", end ? py::object(py::none()) : exception_of(end.error()));
                    });
                  }};
          auto made =
              hosts->logs(report, {.ranks = ranks, .tail = tail, .follow = follow}, handlers);
          if (!made) return fail(made.error());
          auto stream = std::make_shared<PythonLogs>();
          stream->stream.emplace(std::move(*made));
          return stream;
        }
        return fail(ErrorCode::not_exist, "mesh " + mesh + ": these hosts do not know it");
      },
      [](const std::shared_ptr<PythonLogs>& stream) { return py::cast(stream); });
}

}  // namespace

void bind_hosts(py::module_& module) {
  py::class_<PythonLogs, std::shared_ptr<PythonLogs>>(module, "LogStream", "Reads until closed.")
      .def("close", [](PythonLogs& self) {
        py::gil_scoped_release release;
        self.stream.reset();
      });
  py::class_<PythonHosts>(module, "HostMesh", "Hosts that this launcher owns or uses.")
      .def_property_readonly("ref", [](const PythonHosts& self) { return self.ref.to_string(); })
      .def_property_readonly("hosts",
                             [](const PythonHosts& self) {
                               py::list all;
                               for (const auto& host : self.ref.hosts())
                                 all.append(host.to_string());
                               return all;
                             })
      .def_property_readonly("shape",
                             [](const PythonHosts& self) { return shape_of(self.ref.region()); })
      .def("spawn", &spawn_procs)
      .def("inside", &start_inside)
      .def("meshes", &meshes_on_hosts)
      .def("events", &events_of_hosts)
      .def("logs", &logs_of_mesh)
      .def("grow_mesh", &grow_mesh)
      .def("shrink_mesh", &shrink_mesh)
      .def("drain", &drain_hosts)
      .def("resume", &resume_hosts)
      .def("shutdown", &shut_hosts_down)
      .def("close", [](PythonHosts& self) { self.held.close(); });
}

}  // namespace meshbus::python
