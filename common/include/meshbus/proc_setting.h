#pragma once

#include <string>

namespace [[gnu::visibility("default")]] meshbus {

/// A setting that a mesh proc goes by while it runs, as it is at this moment. A plain value.
struct ProcSetting {
  std::string key;  ///< As `meshbus config` names it: terminate.grace, session.away, message.limit,
                    ///< log.level; program.NAME: one that its program has declared
                    ///< (ProcProgram::setting).
  std::string value;  ///< "10s"
  /// The source of the value, the strongest first: "environment" (of the proc), "runtime"
  /// (Context::change_settings()), "host" (its agent), "launcher" (settings of the launcher that
  /// made its mesh), "default".
  std::string source;
  /// What its value may be, in words. Empty for those of `meshbus config`, and of older releases.
  std::string form = {};
  std::string help = {};  ///< What it means, by its program; as `form`.
};

}  // namespace meshbus
