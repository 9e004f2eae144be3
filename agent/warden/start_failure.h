#pragma once

#include <string>

#include <tl/expected.hpp>

namespace meshbus::warden {

/// Why a host could not start.
struct StartFailure {
  int exit_code;    ///< The warden's: agent/warden/exit_codes.h.
  std::string why;  ///< For people.
};

/// The outcome of a step of the start.
using Started = tl::expected<void, StartFailure>;

}  // namespace meshbus::warden
