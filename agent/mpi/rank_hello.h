#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshbus/result.h"

namespace meshbus::mpi {

/// The name of the unix socket at which the ranks of a host find its helper. It is abstract, so
/// that nothing of it is left in a file system.
std::string door_name(std::string_view job, std::uint64_t host);

/// What a rank says when it has connected: "RANK ATTEMPT".
struct RankHello {
  std::uint64_t rank = 0;
  std::uint64_t attempt = 0;
  std::string to_line() const;  ///< With the newline.
  /// Errors: parse_error.
  static Result<RankHello> parse(std::string_view line);
};

}  // namespace meshbus::mpi
