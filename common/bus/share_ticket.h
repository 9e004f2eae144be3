#pragma once

#include <compare>
#include <cstdint>

namespace meshbus {

/// Joins a descriptor that came to a ShareInbox to the call that announces it: nobody can guess it.
struct ShareTicket {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  auto operator<=>(const ShareTicket&) const = default;
};

}  // namespace meshbus
