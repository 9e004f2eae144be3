#pragma once

#include <functional>
#include <unordered_map>
#include <utility>

#include "common/wire/control.h"
#include "common/wire/dispatcher.h"
#include "wire/forward.h"

namespace meshbus {

/// The type and the body of a control message.
struct TypedBody {
  wire::Body type;
  const void* body;
};
TypedBody typed_body_of(const ControlMessage& message) noexcept;
/// What ContextDispatcher::dispatch() fails with: no_such_port.
Error no_row_for(wire::Body type);
/// The same: unauthorised.
Error role_too_low(wire::Body type, Role least, Role role);

/// A Dispatcher whose handlers also get what the message came with, for example its connection.
/// Immutable once set up.
template <typename Context>
class ContextDispatcher {
 public:
  template <typename T>
  using Handler = std::function<void(Context, const Request&, const T&)>;

  /// One row. The tag follows from the type of the message.
  template <typename T>
  ContextDispatcher& on(Role least, Handler<T> handler) {
    rows_[wire::BodyTag<T>::value] = Row{
        least,
        [handler = std::move(handler)](Context context, const Request& request, const void* body) {
          handler(context, request, *static_cast<const T*>(body));
        }};
    return *this;
  }

  /// Calls the row of that message. Errors: no_such_port (no row), unauthorised (the sender's role
  /// is below the row's).
  Result<void> dispatch(Context context, const Request& request,
                        const ControlMessage& message) const {
    const TypedBody typed = typed_body_of(message);
    const auto row = rows_.find(typed.type);
    if (row == rows_.end()) return fail(no_row_for(typed.type));
    const Role role = request.envelope.role();
    if (role < row->second.least) return fail(role_too_low(typed.type, row->second.least, role));
    row->second.handler(std::move(context), request, typed.body);
    return {};
  }

 private:
  struct Row {
    Role least;
    /// The body is of the type that the row was made for.
    std::function<void(Context, const Request&, const void*)> handler;
  };
  std::unordered_map<wire::Body, Row> rows_;
};

}  // namespace meshbus
