#include "client/python/bind/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <pybind11/stl.h>

#include "client/python/bind/errors.h"
#include "client/python/bind/waiting.h"

namespace meshbus::python {

Inbox::Inbox() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
}

Inbox::~Inbox() {
  ::close(descriptor_);
}

void Inbox::push(Item item) {
  bool was_empty = false;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    was_empty = items_.empty();
    items_.push_back(std::move(item));
  }
  if (was_empty) ::eventfd_write(descriptor_, 1);
  changed_.notify_one();
}

std::optional<Inbox::Item> Inbox::take() {
  std::lock_guard lock(mutex_);
  if (items_.empty()) return {};
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

py::list Inbox::drain() {
  check_process_();
  // First: what is pushed from here on makes it readable again.
  eventfd_t count = 0;
  ::eventfd_read(descriptor_, &count);
  py::list all;
  while (const auto item = take()) all.append((*item)());
  return all;
}

py::object Inbox::get(std::optional<double> seconds) {
  check_process_();
  wait_with_signals(seconds, [this](std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [this] { return is_closed_ || !items_.empty(); });
  });
  const auto item = take();
  return item ? (*item)() : py::none();
}

void Inbox::close() {
  std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

void bind_inbox(py::module_& module) {
  py::class_<Inbox, std::shared_ptr<Inbox>>(module, "Inbox", py::module_local(),
                                            "What C++ threads say to Python.")
      .def(py::init<>())
      .def("fileno", &Inbox::descriptor)
      .def("drain", &Inbox::drain)
      .def("get", &Inbox::get, py::arg("timeout") = py::none())
      .def("close", &Inbox::close);
}

}  // namespace meshbus::python
