#pragma once

#include <atomic>

#include <pybind11/pybind11.h>

#include "meshbus/proc.h"

namespace meshbus::python {

namespace py = pybind11;

/// This process as a rank of its mesh.
class Rank {
 public:
  /// The one of this process. Never destroyed: handlers use it until the process is gone.
  static Rank& ours();

  /// Becomes the rank that this process was started as, and waits until it is ready. `ports`:
  /// {number: f(body, rank of the sender or None, is_call)}; `on_stop`: f(reason). Needs the GIL.
  void start(const py::dict& ports, py::object on_stop, unsigned actor_threads);
  /// Tells which proc this is. A message may come before start() returns.
  void learn(Proc& proc) noexcept { proc_ = &proc; }
  /// Raises when this process is no rank.
  Proc& proc() const;

 private:
  Rank() = default;

  std::atomic<Proc*> proc_{nullptr};
};

/// Adds what a rank can do to a module.
void bind_rank(py::module_& module);

}  // namespace meshbus::python
