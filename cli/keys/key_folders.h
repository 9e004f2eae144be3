#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// Makes a directory for keys, and those above it. Errors: io_error; configuration_error (it is
/// there, and others may write to it).
Result<void> make_key_directory(const std::string& path, mode_t mode);

/// Makes DIR (0700), DIR/authorised and its folder for each role (0755). Errors: as above.
Result<void> make_key_directories(const std::string& path);

/// Held while keys in DIR are made or replaced: two at a time would mix up secrets and public
/// halves. Errors: io_error.
Result<UniqueFd> lock_keys(const std::string& path);

}  // namespace meshbus::cli
