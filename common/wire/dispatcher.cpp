#include "common/wire/dispatcher.h"

#include "common/wire/context_dispatcher.h"
#include "wire/control_generated.h"

namespace meshbus {

Result<void> Dispatcher::dispatch(const Request& request, const wire::Control& control) const {
  const std::string name = wire::EnumNameBody(control.body_type());
  const auto row = rows_.find(control.body_type());
  if (row == rows_.end())
    return fail(ErrorCode::no_such_port,
                "nothing here handles " + (name.empty() ? "a message of an unknown type" : name));
  if (request.envelope.role() < row->second.least)
    return fail(role_too_low(control.body_type(), row->second.least, request.envelope.role()));
  row->second.handler(request, control.body());
  return {};
}

}  // namespace meshbus
