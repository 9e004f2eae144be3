#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/proc/bootstrap.h"
#include "common/config_keys.h"
#include "common/log.h"
#include "common/settings_call.h"

namespace meshbus::mesh_proc {

/// What a proc goes by while it runs, and may be told anew by message (spec 6.5, 11.2). The strongest first: its environment, what was set
/// at run time, what its host has said, its launcher's settings, the default. Pure, but for the environment, which is read once.
class LiveSettings {
 public:
  using Environment = std::function<const char*(const char* name)>;
  LiveSettings(const Bootstrap& bootstrap, const Environment& environment);

  std::chrono::milliseconds grace() const;
  std::chrono::milliseconds away() const;
  log::Level level() const;

  /// All of them, or none. Errors: configuration_error: a key that is not among these, a value that it cannot have, and one that the
  /// environment decides.
  Result<void> change(const SettingChanges& changes);
  std::vector<ProcSetting> list() const;

 private:
  struct Entry {
    const KeyInfo* key = nullptr;
    std::uint64_t number = 0;
    const char* source = "default";
  };
  const Entry& of(std::size_t index) const;

  std::array<Entry, 3> entries_;
};

}  // namespace meshbus::mesh_proc
