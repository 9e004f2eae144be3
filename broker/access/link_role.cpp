#include "broker/access/link_role.h"

#include <algorithm>

#include "common/wire/control.h"
#include "wire/control_generated.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

using wire::Role;

/// What agents and brokers say of their own host, and ask nothing by.
bool is_report(Bytes body) {
  const auto control = ControlMessage::decode(body);
  if (!control) return false;
  switch ((*control)->body_type()) {
    case wire::Body::Undeliverable:
    case wire::Body::Gone:
    case wire::Body::Heartbeat:
    case wire::Body::Bye:
    case wire::Body::StateChanged:
    case wire::Body::Output:
    case wire::Body::Log: return true;
    default: return control->head().is_answer;
  }
}

}  // namespace

Role role_over_link(const wire::Envelope& envelope, Bytes body, bool is_agent, Role ceiling) {
  Role claimed = envelope.role();
  if (envelope.source_proc() == 0) {
    claimed = Role::broker;
  } else if (claimed > Role::operate) {
    claimed = is_agent ? Role::host : Role::operate;
  }
  if (claimed <= ceiling || ceiling >= Role::operate) return claimed;
  const bool is_told = claimed > Role::operate && envelope.kind() == wire::Kind::control;
  return is_told && is_report(body) ? claimed : ceiling;
}

}  // namespace meshbus
