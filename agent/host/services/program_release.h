#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::host {

/// What a program of a host says of itself when it is started with --release:
///
///     meshbus-agent 0.1.0
///     takes over: keeper 4.2, ledger 1, spool 1
///
/// A plain value. An agent has a line of the second kind for each set of formats in which it can go
/// on with what another agent and its keeper have left.
struct ProgramRelease {
  std::string release;
  std::vector<std::string> takes_over;

  /// The formats of this build: "keeper 4.2, ledger 1, spool 1".
  static std::string own_formats();
  /// What this build says.
  static std::string own_text(const std::string& program);
  /// Reads what `program` wrote. Errors: refused (it is no such program).
  static Result<ProgramRelease> parse(std::string_view text, std::string_view program);
  /// Whether an agent of this kind can go on with what this build leaves. Errors: refused.
  Result<void> check_takes_over() const;
};

/// Errors: refused (somebody else than root and the user of this process could change what is in
/// that folder, or a file of it), io_error (it is not there). `path`: absolute, without links.
Result<void> check_trusted(const std::string& path);

}  // namespace meshbus::host
