#pragma once

#include <string>

#include "meshbus/result.h"

namespace meshbus {

/// The token that requests to the page must bear, from a file that only its owner may read. A file
/// that does not exist is made, with a new random token in it. Errors: configuration_error (others
/// can read it, or what is in it is too short), io_error.
Result<std::string> read_page_token(const std::string& path);

}  // namespace meshbus
