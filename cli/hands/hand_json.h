#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "client/src/monitors/exec_mailbox.h"

namespace meshbus::cli {

/// A rank beside which something is done, for programs.
struct HandRank {
  std::string mesh;  ///< Its whole name.
  std::uint64_t rank = 0;
};

/// A line of its output, as one line of JSON: share/schemas/exec.json.
std::string line_json(const HandRank& of, bool is_err, std::string_view line);
/// The end of its command, likewise.
std::string end_json(const HandRank& of, const Result<ExecEnd>& end);
/// What was copied to or from it: share/schemas/cp.json.
nlohmann::ordered_json copy_json(const HandRank& of, std::uint64_t files, std::uint64_t bytes,
                                 const std::vector<std::string>& problems);

}  // namespace meshbus::cli
