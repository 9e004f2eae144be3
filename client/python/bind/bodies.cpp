#include "client/python/bind/bodies.h"

#include <cstdint>

#include <malloc.h>

#include "client/python/bind/errors.h"
#include "meshbus/large_text.h"

namespace meshbus::python {
namespace {

constexpr int kLargestHeapBlock = 32 * 1024 * 1024;  // the most that glibc takes
constexpr std::size_t kLargeBody = 64 * 1024;  // copying more takes longer than giving up the GIL

}  // namespace

HeldBytes::HeldBytes(py::handle object) {
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

HeldParts::HeldParts(py::handle parts) {
  if (!PyList_Check(parts.ptr())) {
    one_.emplace(parts);
    return;
  }
  many_.emplace();
  for (const auto part : py::reinterpret_borrow<py::list>(parts))
    views_.push_back(many_->emplace_back(part).view());
}

std::string gather(py::handle parts) {
  const HeldParts held(parts);
  const auto body = held.parts();
  std::string all;
  const auto copy = [&] {
    reserve_large(all, body.size());
    for (const auto piece : body.pieces()) all.append(piece);
  };
  if (body.size() > kLargeBody) {
    py::gil_scoped_release release;
    copy();
  } else {
    copy();
  }
  return all;
}

py::object answer_of(Result<std::string> answer) {
  return answer ? py::cast(Body{std::move(*answer)}) : exception_of(answer.error());
}

py::object answers_of(std::vector<Result<std::string>> answers) {
  py::list all;
  for (auto& answer : answers) all.append(answer_of(std::move(answer)));
  return all;
}

py::str text_of(std::string_view bytes) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

void bind_bodies(py::module_& module) {
  ::mallopt(M_MMAP_THRESHOLD, kLargestHeapBlock);
  ::mallopt(M_TRIM_THRESHOLD, 8 * kLargestHeapBlock);
  py::class_<Body>(module, "Body", py::buffer_protocol(), py::module_local(),
                   "Bytes that came. Use it as a buffer, or bytes(body).")
      .def("__len__", [](const Body& body) { return body.bytes.size(); })
      .def("__bytes__", [](const Body& body) { return py::bytes(body.bytes); })
      .def_buffer([](Body& body) {
        return py::buffer_info(reinterpret_cast<std::uint8_t*>(body.bytes.data()),
                               static_cast<py::ssize_t>(body.bytes.size()));
      });
}

}  // namespace meshbus::python
