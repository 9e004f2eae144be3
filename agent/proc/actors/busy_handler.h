#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace meshbus::mesh_proc {

/// A handler that has not returned.
struct BusyHandler {
  std::string name;  ///< In words: "port 7", "actor counter, add".
  std::chrono::steady_clock::duration busy{0};
  std::uint64_t waiting = 0;  ///< Messages that wait behind it.
};

}  // namespace meshbus::mesh_proc
