#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/config_keys.h"
#include "meshbus/result.h"

namespace meshbus {

/// Key and value as texts: `{"spawn.ready", "30s"}`.
using Setting = std::pair<std::string, std::string>;

/// `spawn.ready=30s`, as given to `--set`. Errors: configuration_error when there is no key or no
/// equals sign.
Result<Setting> parse_setting(std::string_view text);

/// Where settings come from; the file is found by way of the environment (Config::load). Within one
/// list the last one wins.
struct ConfigSources {
  std::vector<Setting> test = {};         ///< Overrides everything; for tests.
  std::vector<Setting> flags = {};        ///< `--set key=value`, and flags that stand for a key.
  std::string flags_name = "flag --set";  ///< Where `flags` are from, for messages.
  std::map<std::string, std::string> environment =
      {};  ///< MESHBUS_*, and HOME and XDG_CONFIG_HOME for finding the file.
  std::vector<Setting> runtime =
      {};  ///< Set in the running process by message (Config::set adds to it).
  std::vector<Setting> snapshot =
      {};                      ///< Config::snapshot() of the launcher that started this process.
  std::string site_file = {};  ///< Read when there is no other file; need not exist.

  /// The environment of this process, /etc/meshbus/config, and nothing else.
  static ConfigSources of_process();
};

/// The settings of this process: the layers of spec 11.2, put together and checked once, so that
/// look-ups cannot fail. A plain value: copy it freely. A Config has no lock: only the thread that
/// calls set() may use that copy.
class Config {
 public:
  /// All defaults.
  Config();

  /// Puts the layers together, strongest first: test, flags, environment, runtime, file, launcher's
  /// snapshot, default. The file is $MESHBUS_CONFIG, else $XDG_CONFIG_HOME/meshbus/config, else
  /// ~/.config/meshbus/config, else /etc/meshbus/config; only the first must exist. It holds lines
  /// `spawn.ready = 30s`, or `ready = 30s` below `[spawn]`; `#` and `;` start a comment. Errors:
  /// configuration_error naming key, value, where it was set, and what is expected. Values that
  /// another layer covers are checked too. Unknown keys are errors as well, but for MESHBUS_*
  /// variables and the launcher's snapshot, which another version of this software may have
  /// written: those are ignored, with a line in warnings().
  static Result<Config> load(ConfigSources sources);

  std::chrono::milliseconds duration(DurationKey key) const {
    return std::chrono::milliseconds(values_[key.index].number);
  }
  std::uint64_t count(CountKey key) const { return values_[key.index].number; }
  std::uint64_t bytes(BytesKey key) const { return values_[key.index].number; }
  bool flag(BooleanKey key) const { return values_[key.index].number != 0; }
  /// Empty = none.
  const std::string& path(PathKey key) const { return values_[key.index].text; }
  std::string word(WordKey key) const {
    return value_to_text(key.info(), values_[key.index].number);
  }

  /// Sets a key at run time, from now on; flags and environment stay stronger (see show()).
  /// Errors: configuration_error, and nothing has changed.
  Result<void> set(std::string key, std::string value);

  /// Everything that is not the default, for the processes that this one starts (spec 6.5).
  std::vector<Setting> snapshot() const;

  struct Shown {
    std::string_view key;
    std::string value;
    std::string source;  ///< "default", "launcher", "file /home/x/.config/meshbus/config",
                         ///< "environment", "flag", ...
    std::string_view meaning;
  };
  /// Every key, in the order of kKeyTable: what `meshbus config` prints.
  std::vector<Shown> show() const;

  /// What is suspicious but no error, one line each. The process that people talk to prints them;
  /// the others need not.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Value {
    std::uint64_t number = 0;
    std::string source;
    std::string text;  // of a path
  };
  explicit Config(ConfigSources sources) : sources_(std::move(sources)) {}
  Result<void> resolve();
  std::string text_of(std::size_t index) const;

  ConfigSources sources_;
  std::string file_path_;  // read once: set() must not pick up what was written to the file since
  std::vector<Setting> file_;
  std::vector<std::string> warnings_;
  std::array<Value, kKeyTable.size()> values_;
};

/// The settings of this process, with those of its `--set`: `spawn.ready=30s` each. Errors: as
/// parse_setting() and Config::load().
Result<Config> load_config(const std::vector<std::string>& settings);

}  // namespace meshbus
