#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "client/python/bind/inbox.h"
#include "client/python/bind/process_check.h"

namespace meshbus::python {

/// A result that is under way. A C++ thread fills it, once and without the GIL; Python waits for it
/// in plain code, or is told by an Inbox, and takes it.
class Pending {
 public:
  /// Makes the Python object, or raises; runs in Python's thread.
  using Value = std::function<py::object()>;

  /// The result is there. Only the first one counts: whether this is it. From any thread.
  bool fill(Value value);
  bool is_done() const;
  /// Whether it is there by then. Needs the GIL. Raises in a child of fork().
  bool wait(std::optional<double> seconds);
  /// Puts `token` into the inbox once it is there. Any number may watch. Raises in a child of
  /// fork().
  void notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token);
  /// Gives it up: what works for it ends, and fills it with an error if need be.
  void cancel();
  /// The same, and the result is let go, whether it is there or will come: done, without one.
  /// Without the GIL.
  void discard();
  /// For what works for it.
  std::stop_token stop_token() const { return stop_.get_token(); }
  /// The result; it must be there. Once.
  py::object take();

 private:
  ProcessCheck check_process_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::stop_source stop_;
  bool is_done_ = false;
  Value value_;
  /// One that is gone needs nothing.
  std::vector<std::pair<std::weak_ptr<Inbox>, std::uint64_t>> watchers_;
};

/// Adds the class Pending to a module.
void bind_pending(py::module_& module);

}  // namespace meshbus::python
