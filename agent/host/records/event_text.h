#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus::host {

/// An event as one line of JSON, newline included: "time" (RFC 3339, UTC, for people) and
/// "time_ns", "kind", "mesh", then the other fields; a field that is empty or 0 is left out. Bytes
/// that are not UTF-8 become U+FFFD; of the last lines of stderr `kMostStderr` bytes are kept.
inline constexpr std::size_t kMostStderr = 8 * 1024;
std::string to_line(const wire::EventT& event);

/// Parses such a line. Unknown keys are skipped, unknown words are `none`: a newer host may have
/// written them. Errors: parse_error.
Result<wire::EventT> parse_event(std::string_view line);

/// Whether a line may be about that mesh, a mesh of that base, or the host itself. It does not
/// parse the line.
bool may_concern(std::string_view line, std::string_view mesh);

}  // namespace meshbus::host
