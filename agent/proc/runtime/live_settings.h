#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/runtime/bootstrap.h"
#include "common/base/log.h"
#include "common/config/config_keys.h"
#include "common/wire/settings_call.h"

namespace meshbus::mesh_proc {

/// What a proc goes by while it runs, and may be told anew by message (spec 6.5, 11.2). The
/// strongest first: its environment, what was set at run time, what its host has said, its
/// launcher's settings, the default. Pure, but for the environment, which is read once.
class LiveSettings {
 public:
  using Environment = std::function<const char*(const char* name)>;
  /// `has_log`: what is written down is this proc's own business; it is not where several share a
  /// process.
  LiveSettings(const Bootstrap& bootstrap, const Environment& environment, bool has_log = true);

  std::chrono::milliseconds grace() const;
  std::chrono::milliseconds away() const;
  /// 0 = a handler may run for any time.
  std::chrono::milliseconds handler_stuck() const;
  /// The largest body, in bytes.
  std::uint64_t message_limit() const;
  /// Nothing: it is not this proc's business.
  std::optional<log::Level> level() const;

  /// All of them, or none. Errors: configuration_error: a key that is not among these, a value that
  /// it cannot have, and one that the environment decides.
  Result<void> change(const SettingChanges& changes);
  std::vector<ProcSetting> list() const;

 private:
  struct Entry {
    const KeyInfo* key = nullptr;
    std::uint64_t number = 0;
    const char* source = "default";
  };
  /// Null: it does not go by that.
  const Entry* of(std::size_t index) const;

  std::vector<Entry> entries_;
};

}  // namespace meshbus::mesh_proc
