#include "common/config/config_ladder.h"

#include <string>
#include <string_view>

namespace meshbus {
namespace {

/// `lower`, so many times, may not be longer than `upper`. 0 is no limit, and on no rung.
struct Rung {
  DurationKey lower;
  unsigned times;
  DurationKey upper;
  std::string_view otherwise;
};

constexpr Rung kRungs[] = {
    {keys::heartbeat, 2, keys::session_away,
     "procs would give up an agent that is well, between two of its signs of life"},
    {keys::spawn_ready, 1, keys::spawn_idle,
     "the launcher would give up before the hosts say which ranks are stuck, and at which stage"},
    {keys::supervision_poll, 2, keys::watchdog,
     "owners would take a controller for lost that is well, between two of its heartbeats"},
};

std::string told(const Config& config, DurationKey key) {
  const auto one = config.show()[key.index];
  return std::string(one.key) + " = " + one.value + " (" + one.source + ")";
}

}  // namespace

Result<void> check_ladder(const Config& config) {
  for (const Rung& rung : kRungs) {
    const auto lower = config.duration(rung.lower);
    const auto upper = config.duration(rung.upper);
    if (lower.count() == 0 || upper.count() == 0 || lower * rung.times <= upper) continue;
    const std::string times = rung.times == 1 ? "" : std::to_string(rung.times) + " times ";
    return fail(ErrorCode::configuration_error,
                times + told(config, rung.lower) + " is longer than " + told(config, rung.upper) +
                    ": " + std::string(rung.otherwise) + "; lower " +
                    std::string(rung.lower.info().name) + " or raise " +
                    std::string(rung.upper.info().name));
  }
  return {};
}

}  // namespace meshbus
