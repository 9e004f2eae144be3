#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/result.h"

namespace meshbus {

/// A list of hosts has at most so many.
inline constexpr std::size_t kMostHostsListed = 65'536;

/// The parts of a list, separated by commas and blanks, with ranges written out:
/// "tcp:h[0-2,7]:7420" is four hosts, "r[1-2]h[08-10]" six; zeros in front are kept. Brackets that
/// hold anything but numbers, like those of IPv6 addresses, stay as they are. Errors:
/// configuration_error: a range that goes backwards or is inside of another one, or more than 65536
/// hosts.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace meshbus
