#include "client/python/launcher/spec.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include <pybind11/stl.h>

#include "client/python/bind/errors.h"
#include "client/python/bind/waiting.h"

namespace meshbus::python {
namespace {

using Strings = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;
using Setter = std::function<void(ProcSpec&, py::handle)>;

template <typename Value>
Value read(py::handle value) {
  return py::cast<Value>(py::reinterpret_borrow<py::object>(value));
}

std::chrono::milliseconds time(py::handle value) {
  return milliseconds_of(read<double>(value));
}

RestartPolicy restart_of(const py::dict& given) {
  RestartPolicy policy;
  const auto on = read<std::string>(given["on"]);
  policy.on = on == "always"  ? RestartPolicy::On::always
              : on == "never" ? RestartPolicy::On::never
                              : RestartPolicy::On::failure;
  const auto gang = read<std::string>(given["gang"]);
  policy.gang = gang == "all" ? Gang::all : gang == "rest" ? Gang::rest : Gang::one;
  policy.codes = read<std::vector<int>>(given["codes"]);
  policy.budget = read<std::optional<std::uint64_t>>(given["budget"]);
  policy.window = time(given["window"]);
  policy.delay = time(given["delay"]);
  policy.max_delay = time(given["max_delay"]);
  return policy;
}

std::vector<HostAddr> hosts_of(const Strings& texts) {
  std::vector<HostAddr> hosts;
  for (const auto& text : texts) {
    auto host = HostAddr::parse(text);
    if (!host) raise(host.error().within("Restart.spares: '" + text + "'"));
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

Mpi mpi_of(const std::string& word) {
  return word == "pmi1" ? Mpi::pmi1 : word == "pmix" ? Mpi::pmix : Mpi::automatic;
}

Binding binding_of(const py::dict& given) {
  Binding binding;
  const auto to = read<std::string>(given["to"]);
  binding.to = to == "core"   ? BindTo::core
               : to == "numa" ? BindTo::numa
               : to == "gpu"  ? BindTo::gpu
                              : BindTo::none;
  binding.cores = read<std::uint32_t>(given["cores"]);
  const auto memory = read<std::string>(given["memory"]);
  binding.memory = memory == "only"  ? BindMemory::only
                   : memory == "any" ? BindMemory::any
                                     : BindMemory::prefer;
  binding.visible_devices = read<bool>(given["visible_devices"]);
  return binding;
}

/// What each key of the dictionary sets.
const std::map<std::string, Setter, std::less<>>& setters() {
  static const auto* all = new std::map<std::string, Setter, std::less<>>{
      {"is_mesh", [](ProcSpec& s,
                     py::handle v) { s.kind = read<bool>(v) ? ProcKind::mesh : ProcKind::plain; }},
      {"command", [](ProcSpec& s, py::handle v) { s.command = read<Strings>(v); }},
      {"is_template", [](ProcSpec& s, py::handle v) { s.is_template = read<bool>(v); }},
      {"environment", [](ProcSpec& s, py::handle v) { s.environment = read<Pairs>(v); }},
      {"clean_environment", [](ProcSpec& s, py::handle v) { s.clean_environment = read<bool>(v); }},
      {"directory", [](ProcSpec& s, py::handle v) { s.directory = read<std::string>(v); }},
      {"is_streamed",
       [](ProcSpec& s, py::handle v) {
         s.output = read<bool>(v) ? OutputMode::stream : OutputMode::capture;
       }},
      {"partial", [](ProcSpec& s, py::handle v) { s.partial = read<bool>(v); }},
      {"grace", [](ProcSpec& s, py::handle v) { s.grace = time(v); }},
      {"ready", [](ProcSpec& s, py::handle v) { s.ready_limit = time(v); }},
      {"lease", [](ProcSpec& s, py::handle v) { s.lease = time(v); }},
      {"input_ranks",
       [](ProcSpec& s, py::handle v) {
         s.input_ranks = to_rank_set(read<std::vector<std::uint64_t>>(v));
       }},
      {"restart", [](ProcSpec& s, py::handle v) { s.restart = restart_of(read<py::dict>(v)); }},
      {"spares", [](ProcSpec& s, py::handle v) { s.spares = hosts_of(read<Strings>(v)); }},
      {"cpus",
       [](ProcSpec& s, py::handle v) { s.settings.cpus = read<std::vector<std::uint32_t>>(v); }},
      {"mpi", [](ProcSpec& s, py::handle v) { s.mpi = mpi_of(read<std::string>(v)); }},
      {"bind", [](ProcSpec& s, py::handle v) { s.binding = binding_of(read<py::dict>(v)); }},
      {"nice", [](ProcSpec& s, py::handle v) { s.settings.nice = read<int>(v); }},
      {"memory",
       [](ProcSpec& s, py::handle v) { s.settings.memory_limit = read<std::uint64_t>(v); }},
      {"pids", [](ProcSpec& s, py::handle v) { s.settings.pids_limit = read<std::uint64_t>(v); }},
      {"cpu", [](ProcSpec& s, py::handle v) { s.settings.cpu_limit = read<double>(v); }},
      {"uid", [](ProcSpec& s, py::handle v) { s.settings.uid = read<std::uint32_t>(v); }},
      {"gid", [](ProcSpec& s, py::handle v) { s.settings.gid = read<std::uint32_t>(v); }},
      {"umask", [](ProcSpec& s, py::handle v) { s.settings.umask = read<unsigned>(v); }},
      {"groups",
       [](ProcSpec& s, py::handle v) { s.settings.groups = read<std::vector<std::uint32_t>>(v); }},
      {"no_new_privs", [](ProcSpec& s, py::handle v) { s.settings.no_new_privs = read<bool>(v); }},
      {"rlimits",
       [](ProcSpec& s, py::handle v) {
         using Limit = std::tuple<int, std::uint64_t, std::uint64_t>;
         for (const auto& [resource, soft, hard] : read<std::vector<Limit>>(v))
           s.settings.limits.push_back({.resource = resource, .soft = soft, .hard = hard});
       }},
  };
  return *all;
}

}  // namespace

ProcSpec spec_of(const py::dict& spec) {
  ProcSpec made;
  for (const auto& [key, value] : spec) {
    const auto name = read<std::string>(key);
    const auto setter = setters().find(name);
    if (setter == setters().end())
      raise(Error(ErrorCode::internal, "a spec has no \"" + name + "\""));
    try {
      setter->second(made, value);
    } catch (const py::cast_error&) {
      raise(Error(ErrorCode::configuration_error,
                  name + " is " + std::string(py::repr(value)) + ", which it cannot be"));
    }
  }
  return made;
}

}  // namespace meshbus::python
