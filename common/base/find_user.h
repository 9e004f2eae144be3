#pragma once

#include <string>

#include "common/base/user_ids.h"
#include "meshbus/result.h"

namespace meshbus {

/// The user of that name or number, with its groups. A number that has no name is its own group.
/// For the start of a program: it asks the machine's directory of users, which may take long.
/// Errors: parse_error.
Result<UserIds> find_user(const std::string& text);

}  // namespace meshbus
