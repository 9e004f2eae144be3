#pragma once

#include <string>
#include <vector>

#include "tests/world/command_line.h"

namespace meshbus::test {

/// The mesh "work" of three ranks on a host of its own; its ranks have said "up".
struct Work {
  /// `shell`: what each rank runs, in sh. `run`: options of `meshbus run`, which is started with
  /// `run_options`.
  explicit Work(const std::string& shell = "exec sleep 300", const Words& run = {},
                const Words& host_options = {}, const ProcessOptions& run_options = {});

  /// `meshbus exec OPTIONS AT -- COMMAND`.
  Words exec_words(const std::string& at, const Words& command, const Words& options = {}) const;
  /// The same, to its end.
  Finished exec(const std::string& at, const Words& command, const ProcessOptions& process = {},
                const Words& options = {}) const;
  /// The entries of the audit trail with that verb whose command has that text.
  std::vector<nlohmann::json> audited(const std::string& verb, const std::string& what) const;

  static constexpr int ranks = 3;
  StandingHost host;
  Process run;

 private:
  Words run_words(const Words& more, const std::string& shell) const;
};

bool says(const std::string& text, const std::string& part);

}  // namespace meshbus::test
