#include "agent/metrics/role_report.h"

#include <array>
#include <charconv>

namespace meshbus::metrics {

std::optional<RoleReport> RoleReport::parse(std::string_view text) {
  std::array<std::uint64_t, 5> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t& number : numbers) {
    if (&number != &numbers.front() && (at == end || *at++ != ' ')) return std::nullopt;
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) return std::nullopt;
    at = read.ptr;
  }
  if (at != end) return std::nullopt;
  return RoleReport{.keeper = numbers[0] != 0,
                    .broker = numbers[1] != 0,
                    .agent = numbers[2] != 0,
                    .broker_restarts = numbers[3],
                    .agent_restarts = numbers[4]};
}

}  // namespace meshbus::metrics
