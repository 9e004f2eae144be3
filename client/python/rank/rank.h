#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include <pybind11/pybind11.h>

#include "meshbus/proc.h"

namespace meshbus::python {

namespace py = pybind11;

/// This process as a rank of its mesh. bootstrap() never returns, so it runs on a thread of its
/// own; Python's main thread stays where it is.
class Rank {
 public:
  /// The one of this process. Never destroyed: the library ends the process on its own thread.
  static Rank& ours();

  /// Becomes the rank that this process was started as, and waits until it is ready. `ports`:
  /// {number: f(body, rank of the sender or None, is_call)}; `on_stop`: f(reason). Needs the GIL.
  void start(const py::dict& ports, py::object on_stop, unsigned actor_threads);
  /// Tells which proc this is. A message may come before main() does.
  void learn(Proc& proc);
  /// Raises when this process is no rank.
  Proc& proc() const;

 private:
  Rank() = default;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Proc* proc_ = nullptr;
  std::optional<Error> error_;
};

/// Adds what a rank can do to a module.
void bind_rank(py::module_& module);

}  // namespace meshbus::python
