#include "client/python/bind/pending.h"

#include <utility>

#include <pybind11/stl.h>

#include "client/python/bind/waiting.h"

namespace meshbus::python {
namespace {

void tell(Inbox& inbox, std::uint64_t token) {
  inbox.push([token] { return py::int_(token); });
}

}  // namespace

bool Pending::fill(Value value) {
  decltype(watchers_) watchers;
  {
    std::lock_guard lock(mutex_);
    if (is_done_) return false;
    is_done_ = true;
    value_ = std::move(value);
    watchers = std::move(watchers_);
  }
  changed_.notify_all();
  for (const auto& [watcher, token] : watchers) {
    if (const auto inbox = watcher.lock()) tell(*inbox, token);
  }
  return true;
}

void Pending::cancel() {
  // In a child of fork() what works for it has no threads, and locks may be held for ever.
  if (check_process_.is_here()) stop_.request_stop();
}

void Pending::discard() {
  if (!check_process_.is_here()) return;
  stop_.request_stop();
  if (fill({})) return;
  Value value;  // its end may wait for threads: not with the lock
  {
    std::lock_guard lock(mutex_);
    value.swap(value_);
  }
}

bool Pending::is_done() const {
  std::lock_guard lock(mutex_);
  return is_done_;
}

bool Pending::wait(std::optional<double> seconds) {
  check_process_();
  return wait_with_signals(seconds, [this](std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [this] { return is_done_; });
  });
}

void Pending::notify(const std::shared_ptr<Inbox>& inbox, std::uint64_t token) {
  check_process_();
  {
    std::lock_guard lock(mutex_);
    if (!is_done_) {
      std::erase_if(watchers_, [](const auto& watcher) { return watcher.first.expired(); });
      watchers_.emplace_back(inbox, token);
      return;
    }
  }
  tell(*inbox, token);
}

py::object Pending::take() {
  Value value;
  {
    std::lock_guard lock(mutex_);
    value = std::exchange(value_, {});
  }
  return value ? value() : py::none();
}

void bind_pending(py::module_& module) {
  py::class_<Pending, std::shared_ptr<Pending>>(module, "Pending", py::module_local(),
                                                "A result that is under way.")
      .def(py::init<>(), "One that Python fills itself.")
      .def("fill", [](Pending& pending) { return pending.fill({}); })
      .def("discard", &Pending::discard, py::call_guard<py::gil_scoped_release>())
      .def("cancel", &Pending::cancel, py::call_guard<py::gil_scoped_release>())
      .def("done", &Pending::is_done)
      .def("wait", &Pending::wait, py::arg("timeout") = py::none())
      .def("notify", &Pending::notify)
      .def_static(
          "inbox", [] { return std::make_shared<Inbox>(); }, "An Inbox for notify().")
      .def("take", &Pending::take);
}

}  // namespace meshbus::python
