#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "common/wire/control.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

using Role = wire::Role;

/// The sender of a control message, and what an answer to it needs.
struct Request {
  wire::Envelope envelope;
  ControlHead head;
};

/// The table of control messages that a role understands: type -> (least role of the sender,
/// handler). Immutable once set up.
class Dispatcher {
 public:
  template <typename T>
  using Handler = std::function<void(const Request&, const T&)>;

  /// One row. The tag follows from the type of the message.
  template <typename T>
  Dispatcher& on(Role least, Handler<T> handler) {
    rows_[wire::BodyTag<T>::value] =
        Row{least, [handler = std::move(handler)](const Request& request, const void* body) {
              handler(request, *static_cast<const T*>(body));
            }};
    return *this;
  }

  /// Calls the row of that message. Errors: no_such_port (no row), unauthorised (the sender's role
  /// is below the row's).
  Result<void> dispatch(const Request& request, const wire::Control& control) const;

 private:
  struct Row {
    Role least;
    /// The body is of the type that the row was made for.
    std::function<void(const Request&, const void*)> handler;
  };
  std::unordered_map<wire::Body, Row> rows_;
};

}  // namespace meshbus
