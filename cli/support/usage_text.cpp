#include "cli/support/usage_text.h"

#include <array>
#include <cstdarg>
#include <cstdio>

namespace meshbus::cli {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* form, ...) {
  std::array<char, 64> text{};
  va_list values;
  va_start(values, form);
  std::vsnprintf(text.data(), text.size(), form, values);
  va_end(values);
  return text.data();
}

}  // namespace

std::string cpu_time_text(std::chrono::microseconds time) {
  const auto centiseconds = time.count() / 10'000;  // cut, not rounded: 59.999 s are no 60.00s
  const auto seconds = static_cast<long long>(centiseconds / 100);
  if (seconds < 10)
    return format("%lld.%02llds", seconds, static_cast<long long>(centiseconds % 100));
  if (seconds < 60)
    return format("%lld.%llds", seconds, static_cast<long long>(centiseconds % 100 / 10));
  if (seconds < 3600) return format("%lldm%02llds", seconds / 60, seconds % 60);
  return format("%lldh%02lldm", seconds / 3600, seconds / 60 % 60);
}

std::string restarts_text(std::uint32_t restarts, std::chrono::system_clock::duration since) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
  return "was restarted " + std::to_string(restarts) + (restarts == 1 ? " time" : " times") +
         ", last " + std::to_string(seconds < 0 ? 0 : seconds) + " s ago";
}

std::string memory_text(std::uint64_t bytes) {
  if (bytes < 1024) return format("%lluB", static_cast<unsigned long long>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  const char* unit = "K";
  for (const char* const larger : {"M", "G", "T", "P", "E"}) {
    if (value < 999.5) break;
    value /= 1024;
    unit = larger;
  }
  return format(value < 9.995 ? "%.2f%s" : value < 99.95 ? "%.1f%s" : "%.0f%s", value, unit);
}

std::string load_text(double cpus) {
  return format(cpus < 99.995 ? "%.2f" : "%.0f", cpus);
}

}  // namespace meshbus::cli
