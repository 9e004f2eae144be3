#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include <pybind11/pybind11.h>

#include "client/python/bind/process_check.h"

namespace meshbus::python {

namespace py = pybind11;

/// What C++ threads have to say to Python: a queue with a descriptor that event loops poll. Items
/// become Python objects only when Python takes them, so push() needs no GIL.
class Inbox {
 public:
  using Item = std::function<py::object()>;

  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Appends an item. From any thread; without the GIL too. Ignored once it is closed.
  void push(Item item);
  /// Everything that is there. Needs the GIL.
  py::list drain();
  /// The next item; None when it is closed and empty, or the time is over. Needs the GIL, which is
  /// released meanwhile; signals interrupt it. Raises in a child of fork().
  py::object get(std::optional<double> seconds);
  /// Ends all waiting. What is there can still be taken.
  void close();
  /// Readable while something is there that was not drained; at times without.
  int descriptor() const { return descriptor_; }

 private:
  std::optional<Item> take();

  ProcessCheck check_process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_closed_ = false;
  int descriptor_;
};

/// Adds the class Inbox to a module.
void bind_inbox(py::module_& module);

}  // namespace meshbus::python
