#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/run/role_view.h"

namespace meshbus::cli {

/// Where the ranks of a run were when somebody asked, or when it was about to stop them.
class JobStacks {
 public:
  JobStacks();
  ~JobStacks();
  JobStacks(const JobStacks&) = delete;
  JobStacks& operator=(const JobStacks&) = delete;

  /// When nothing is to be said after all.
  enum class Unless { never, a_thread_runs };
  /// Asks the hosts and writes to stderr what they say; `why` is part of it. Blocks: 5 s at most,
  /// and 6 s more with a_thread_runs, which looks twice.
  /// Returns the ranks that are elsewhere than most, in words, empty when there are none; nothing
  /// when it kept silent.
  std::optional<std::string> look(Context& context, const RoleViews& roles, const std::string& why,
                                  Unless unless = Unless::never);
  /// All that look() has seen, for the report: [{why, took_ms, role, odd, stacks, problems}].
  const nlohmann::ordered_json& json() const noexcept { return *looks_; }

 private:
  std::unique_ptr<nlohmann::ordered_json> looks_;
};

}  // namespace meshbus::cli
