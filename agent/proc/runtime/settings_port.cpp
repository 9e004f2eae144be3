#include "agent/proc/runtime/settings_port.h"

#include <cstdlib>
#include <utility>

#include "common/base/log.h"
#include "common/wire/settings_call.h"

namespace meshbus::mesh_proc {

SettingsPort::SettingsPort(const Bootstrap& bootstrap, bool has_log, AgentLink& agent,
                           const ProgramSettings::Declared& declared, Changed on_changed)
    : settings_(
          bootstrap, [](const char* name) -> const char* { return std::getenv(name); }, has_log),
      program_(declared, bootstrap.program_settings),
      on_changed_(std::move(on_changed)),
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

Result<void> SettingsPort::change(const SettingChanges& changes) {
  SettingChanges own;
  SettingChanges of_program;
  for (const auto& [key, value] : changes) {
    if (key.starts_with(kProgramKeys)) {
      of_program.emplace_back(key.substr(kProgramKeys.size()), value);
    } else {
      own.emplace_back(key, value);
    }
  }
  // What can be refused comes first.
  const auto values = program_.read(of_program);
  if (!values) return fail(values.error());
  if (auto changed = settings_.change(own); !changed) return changed;
  if (program_.change(*values)) on_changed_(program_);
  return {};
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
    if (const auto changed = change(*changes); !changed)
      return bus.fail_call(envelope, header, changed.error());
    apply();
    attach(bus);
  }
  auto all = settings_.list();
  for (auto& one : program_.list()) all.push_back(std::move(one));
  bus.answer_call(envelope, header, encode_settings(all));
}

}  // namespace meshbus::mesh_proc
