#pragma once

#include <string>

#include "cli/keys/keygen_command.h"

namespace meshbus::cli {

/// `meshbus keygen --token host NAME`, with keys in that directory: prints what the new host is to
/// be given. Returns the exit code, as keygen_command() does.
int join_token_command(const KeygenArguments& arguments, const std::string& directory);

}  // namespace meshbus::cli
