#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshbus::cli::doctor {

enum class Severity : std::uint8_t {
  warning,  ///< A job can run, and something will be slow, hard to read, or fail later.
  error,    ///< A job fails there, or cannot start.
};

/// One thing that is wrong, and what to do. A plain value.
struct Finding {
  Severity severity = Severity::warning;
  std::string code;                ///< For programs: "clock", "disk"; see docs/guide/doctor.md.
  std::vector<std::string> hosts;  ///< Where.
  std::string text;                ///< What is wrong there.
  std::string remedy;
};

/// "warning", "error"
const char* word_of(Severity severity);
/// One line: "error: tcp:h1:7420: its clock is 5 s ahead; set it ...".
std::string line_of(const Finding& finding);

}  // namespace meshbus::cli::doctor
