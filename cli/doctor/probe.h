#pragma once

#include <cstdint>

/// The program of a probe: the mesh proc that `meshbus doctor` starts on each host, and what it
/// answers. Bodies are texts.
namespace meshbus::cli::doctor {

/// Its answers by port.
inline constexpr std::uint32_t kFactsPort = 1;  ///< Facts of its machine, as JSON.
inline constexpr std::uint32_t kClockPort = 2;  ///< Its time: nanoseconds since 1970.
inline constexpr std::uint32_t kEchoPort = 3;   ///< An empty body; what it is sent is dropped.
/// Asked with the address of another probe (a ProcId), it measures the way there; a LinkAnswer.
inline constexpr std::uint32_t kMeasurePort = 4;

/// Runs as a probe until it is told to stop. Returns only when this process is no mesh proc.
void be_probe();

}  // namespace meshbus::cli::doctor
