#pragma once

#include <string>

/// What a result says about where it was measured: enough to compare, nothing that names the
/// machine.
namespace meshbus::bench {

std::string cpu_model();
int core_count();
/// The numbers only: "6.1.0".
std::string kernel_version();
std::string zmq_version();
/// The load average of the last minute.
double load_average();
/// Our scheduling priority: below 0 we come before others.
int nice_value();
/// Today in UTC: "2026-01-31".
std::string date_now();
/// Built without assertions.
bool is_optimised() noexcept;

}  // namespace meshbus::bench
