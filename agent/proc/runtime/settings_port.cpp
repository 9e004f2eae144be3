#include "agent/proc/runtime/settings_port.h"

#include <cstdlib>

#include "common/base/log.h"
#include "common/wire/settings_call.h"

namespace meshbus::mesh_proc {

SettingsPort::SettingsPort(const Bootstrap& bootstrap, bool has_log, AgentLink& agent)
    : settings_(
          bootstrap, [](const char* name) -> const char* { return std::getenv(name); }, has_log),
      agent_(agent) {
  apply();
}

bool SettingsPort::is_for(const wire::Envelope& envelope) noexcept {
  return envelope.kind() == wire::Kind::call && envelope.port() == kSettingsPort;
}

void SettingsPort::apply() {
  agent_.set_away_limit(settings_.away());
  if (const auto level = settings_.level()) log::set_least(*level);
}

void SettingsPort::on_call(Bus& bus, const wire::Envelope& envelope, const wire::CallHeader& header,
                           Bytes body) {
  const auto changes = decode_settings_call(body);
  if (!changes) return bus.fail_call(envelope, header, changes.error());
  if (!changes->empty()) {
    if (envelope.role() < Role::operate)
      return bus.fail_call(
          envelope, header,
          Error(ErrorCode::unauthorised,
                "only a sender that may start and stop procs may change their settings"));
    if (const auto changed = settings_.change(*changes); !changed)
      return bus.fail_call(envelope, header, changed.error());
    apply();
    attach(bus);
  }
  bus.answer_call(envelope, header, encode_settings(settings_.list()));
}

}  // namespace meshbus::mesh_proc
