#include "client/python/rank/rank.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include <pybind11/stl.h>

#include "client/python/bind/bodies.h"
#include "client/python/bind/places.h"
#include "client/python/bind/waiting.h"
#include "client/python/rank/interpreter_lock.h"
#include "client/python/rank/python_actor.h"
#include "meshbus/actor.h"
#include "meshbus/large_text.h"

namespace meshbus::python {
namespace {

std::chrono::milliseconds limit_of(double seconds) {
  constexpr double kMost = 3.15e8;  // ten years
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::min(seconds, kMost) * 1000));
}

bool is_main_thread() {
  return ::gettid() == ::getpid();
}

/// Waits for an answer on the main thread, so that a stop and Ctrl-C get through. Needs the GIL.
template <typename Answer>
Answer wait_for(std::future<Answer>& answer) {
  wait_with_signals(std::nullopt, [&](std::chrono::steady_clock::time_point until) {
    return answer.wait_until(until) == std::future_status::ready;
  });
  return answer.get();
}

/// Calls a Python function for what comes to a port. `function` is never given up.
Result<std::string> on_port(PyObject* function, Proc& proc, const Incoming& incoming) {
  Rank::ours().learn(proc);
  Body body{copy_large(incoming.body)};
  const InterpreterLock lock;
  if (!lock) return fail(ErrorCode::refused, "this rank is ending");
  try {
    const auto answer = py::reinterpret_borrow<py::object>(function)(
        std::move(body), proc.rank_of(incoming), incoming.is_call);
    if (answer.is_none()) return std::string();
    return gather(answer);
  } catch (const py::error_already_set& error) {
    return fail(ErrorCode::call_error, error.what());
  }
}

/// (code, reason, the end of the grace in seconds of time.monotonic()), or None.
py::object told(const std::optional<StopRequest>& stop) {
  if (!stop) return py::none();
  const std::chrono::duration<double> until = stop->until.time_since_epoch();
  return py::make_tuple(stop->code, stop->reason, until.count());
}

void tell_stop(PyObject* function, const std::string& reason) {
  const InterpreterLock lock;
  if (!lock) return;
  try {
    py::reinterpret_borrow<py::object>(function)(reason);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("on_stop");
  }
}

}  // namespace

Rank& Rank::ours() {
  static auto* rank = new Rank;
  return *rank;
}

void Rank::start(const py::dict& ports, py::object on_stop, unsigned actor_threads) {
  ProcProgram program;
  for (const auto& [port, function] : ports)
    program.on(py::cast<std::uint32_t>(port),
               [f = function.inc_ref().ptr()](Proc& proc, const Incoming& incoming) {
                 return on_port(f, proc, incoming);
               });
  program.actor_type("python", [](ActorContext& context, std::string_view params) {
    return std::make_unique<PythonActor>(context, params);
  });
  program.actor_threads(actor_threads);
  program.on_stop(
      [f = on_stop.release().ptr()](Proc&, const std::string& reason) { tell_stop(f, reason); });
  learn(*must(without_gil([&] { return join(std::move(program)); })));
}

Proc& Rank::proc() const {
  if (Proc* const proc = proc_) return *proc;
  raise(Error(ErrorCode::not_exist, "this process is no rank: call meshbus.init() first"));
}

void bind_rank(py::module_& module) {
  const auto proc = []() -> Proc& { return Rank::ours().proc(); };
  module.def("is_mesh_proc", &is_mesh_proc);
  module.def("start", [](const py::dict& ports, py::object on_stop, unsigned actor_threads) {
    Rank::ours().start(ports, std::move(on_stop), actor_threads);
  });
  module.def("close", [](double seconds) {
    py::gil_scoped_release release;
    return InterpreterLock::close(seconds);
  });
  module.def("rank", [proc] { return proc().rank(); });
  module.def("world_size", [proc] { return proc().world_size(); });
  module.def("point", [proc] { return place_of(proc().point()); });
  module.def("id", [proc] { return proc().id().to_string(); });
  module.def("mesh", [proc] { return proc().mesh(); });
  module.def("launcher_settings", [proc] { return proc().launcher_settings(); });
  module.def("stop_requested", [proc] { return proc().stop_requested(); });
  module.def("stop_request", [proc] { return told(proc().stop_request()); });
  module.def("call", [proc](std::uint64_t rank, std::uint32_t port, py::handle parts,
                            double timeout) {
    const HeldParts body(parts);
    auto& self = proc();
    // Handlers must not wait, which the library sees by their threads.
    if (!is_main_thread())
      return Body{must(
          without_gil([&] { return self.call(rank, port, body.parts(), limit_of(timeout)); }))};
    auto answer =
        without_gil([&] { return self.call_async(rank, port, body.parts(), limit_of(timeout)); });
    auto result = wait_for(answer);
    if (result) return Body{std::move(*result)};
    const auto to = self.mesh().proc_at(rank);
    raise(
        to ? result.error().within("call to " + to->to_string() + ", port " + std::to_string(port))
           : result.error());
  });
  module.def("call_all", [proc](const ProcMeshRef& ref, std::uint32_t port, py::handle parts,
                                double timeout) {
    const auto body = gather(parts);
    auto& self = proc();
    const auto limit = limit_of(timeout);
    if (!is_main_thread())
      return answers_of(must(without_gil([&] { return self.call(ref, port, body, limit); })));
    // Never joined: a signal may have ended the wait. The proc is never destroyed.
    std::packaged_task<Result<std::vector<Result<std::string>>>()> task(
        [&self, ref, port, body, limit] { return self.call(ref, port, body, limit); });
    auto answer = task.get_future();
    std::thread(std::move(task)).detach();
    return answers_of(must(wait_for(answer)));
  });
  module.def("send", [proc](std::uint64_t rank, std::uint32_t port, py::handle parts) {
    const HeldParts body(parts);
    auto& self = proc();
    must(without_gil([&] { return self.send(rank, port, body.parts()); }));
  });
  module.def("cast", [proc](const ProcMeshRef& ref, std::uint32_t port, py::handle parts) {
    const HeldParts body(parts);
    auto& self = proc();
    must(without_gil([&] { return self.cast(ref, port, body.parts()); }));
  });
}

}  // namespace meshbus::python
