#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pybind11/pybind11.h>

#include "meshbus/body_parts.h"
#include "meshbus/result.h"

namespace meshbus::python {

namespace py = pybind11;

/// Bytes that came, which Python reads and writes by its buffer protocol.
struct Body {
  std::string bytes;
};

/// The bytes of a bytes-like object, held for as long as this lives. Needs the GIL at both ends.
class HeldBytes {
 public:
  explicit HeldBytes(py::handle object);
  ~HeldBytes() { PyBuffer_Release(&buffer_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

  std::string_view view() const {
    return {static_cast<const char*>(buffer_.buf), static_cast<std::size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_{};
};

/// The same of a bytes-like object, or of a list of these that are sent one behind the other: see
/// BodyParts, which they become.
class HeldParts {
 public:
  explicit HeldParts(py::handle parts);
  HeldParts(const HeldParts&) = delete;
  HeldParts& operator=(const HeldParts&) = delete;

  BodyParts parts() const { return one_ ? BodyParts(one_->view()) : BodyParts(views_); }

 private:
  std::optional<HeldBytes> one_;
  /// Those of a list, and what they hold.
  std::optional<std::deque<HeldBytes>> many_;
  std::vector<std::string_view> views_;
};

/// The bytes of HeldParts in one piece of their own: one copy.
std::string gather(py::handle parts);

/// A Body, or the exception.
py::object answer_of(Result<std::string> answer);

/// A list with a Body or an exception for each answer.
py::object answers_of(std::vector<Result<std::string>> answers);

/// A text that need not be UTF-8, as what a program wrote.
py::str text_of(std::string_view bytes);

/// Adds the class Body to a module. Blocks of up to 32 MiB come from the heap from then on, and
/// stay there: an array that is mapped anew for each message costs more in page faults than in
/// copies.
void bind_bodies(py::module_& module);

}  // namespace meshbus::python
