#pragma once

#include <chrono>
#include <functional>

#include "agent/proc/runtime/agent_link.h"
#include "agent/proc/runtime/bootstrap.h"
#include "agent/proc/runtime/live_settings.h"
#include "agent/proc/runtime/program_settings.h"
#include "common/bus/bus.h"

namespace meshbus::mesh_proc {

/// Answers the calls to the port of settings (spec 11.2), and has changes take effect. Lives on the
/// reactor's thread.
class SettingsPort {
 public:
  /// Hears that settings of the program were changed: ProgramSettings::take_news().
  using Changed = std::function<void(ProgramSettings&)>;
  /// `has_log`: as for LiveSettings. `agent` must outlive this; it hears how long it may stay away.
  /// Throws as ProgramSettings does.
  SettingsPort(const Bootstrap& bootstrap, bool has_log, AgentLink& agent,
               const ProgramSettings::Declared& declared, Changed on_changed);

  /// Call it when there is a bus, before anything is sent on it.
  void attach(Bus& bus) const {
    bus.set_body_limit(settings_.message_limit());
    bus.set_direct(true);
  }
  static bool is_for(const wire::Envelope& envelope) noexcept;
  /// What this proc uses now; changed first when the call asks for that and its sender may.
  void on_call(Bus& bus, const wire::Envelope& envelope, const wire::CallHeader& header,
               Bytes body);
  /// Any thread.
  const ProgramSettings& program() const noexcept { return program_; }
  /// How long a stop by a signal may take.
  std::chrono::milliseconds grace() const { return settings_.grace(); }
  /// How long a handler may run; 0 = for any time.
  std::chrono::milliseconds handler_stuck() const { return settings_.handler_stuck(); }

 private:
  void apply();
  /// All of them or none. Errors: those of LiveSettings::change() and ProgramSettings::read().
  Result<void> change(const SettingChanges& changes);

  LiveSettings settings_;
  ProgramSettings program_;
  const Changed on_changed_;
  AgentLink& agent_;
};

}  // namespace meshbus::mesh_proc
