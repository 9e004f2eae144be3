#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "common/control.h"

namespace meshbus {

using Role = wire::Role;

/// Who sent a control message, and what to answer it with.
struct Request {
  wire::Envelope envelope;
  ControlHead head;
};

/// The table of control messages that a role understands: type -> (least role of the sender, handler). Immutable once set up.
class Dispatcher {
 public:
  template <typename T>
  using Handler = std::function<void(const Request&, const T&)>;

  /// One row. The tag follows from the type of the message.
  template <typename T>
  Dispatcher& on(Role least, Handler<T> handler) {
    constexpr wire::Body tag = wire::BodyTraits<T>::enum_value;
    rows_[tag] = Row{least, [handler = std::move(handler)](const Request& request, const wire::Control& control) {
                       handler(request, *control.body_as<T>());
                     }};
    return *this;
  }

  /// Calls the row of that message. Errors: no_such_port (no row), unauthorised (the sender's role is below the row's).
  Result<void> dispatch(const Request& request, const wire::Control& control) const;

 private:
  struct Row {
    Role least;
    std::function<void(const Request&, const wire::Control&)> handler;
  };
  std::unordered_map<wire::Body, Row> rows_;
};

}  // namespace meshbus
