#pragma once

#include <chrono>
#include <cstdint>
#include <string>

/// What procs use, and how often brokers had to be restarted, for people, in few characters. Pure.
namespace meshbus::cli {

/// "0.45s", "12.3s", "3m05s", "2h07m"
std::string cpu_time_text(std::chrono::microseconds time);
/// "812K", "64.2M", "1.50G": three digits or so, in units of 1024.
std::string memory_text(std::uint64_t bytes);
/// In CPUs: "0.02", "3.98"
std::string load_text(double cpus);
/// "was restarted 3 times, last 5 s ago"
std::string restarts_text(std::uint32_t restarts, std::chrono::system_clock::duration since);

}  // namespace meshbus::cli
