#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// Carries our stdin to ranks, only as fast as they read it, on a thread of its own. A rank that
/// ended or closed its stdin is left out; when none is left, or at the end of our stdin, it is
/// over.
class InputPump {
 public:
  /// `on_lost`: input could not be carried to a rank that had not ended and not closed its stdin;
  /// it is over for all. On the pump's thread.
  InputPump(ProcMesh& mesh, std::vector<std::uint64_t> ranks,
            std::function<void(std::string)> on_lost);
  /// Asks it to stop; whether it has within that time. It has not when a rank's host neither takes
  /// nor refuses what is being written.
  bool stop_within(std::chrono::milliseconds limit);
  /// Stops and waits.
  ~InputPump();
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void run();
  /// Whether the rank that read its stdin has ended, or is lost with its host.
  bool is_gone(std::uint64_t rank) const;
  ProcMesh& mesh_;
  std::vector<std::uint64_t> ranks_;
  std::function<void(std::string)> on_lost_;
  UniqueFd stop_;
  std::future<void> thread_;
};

}  // namespace meshbus::cli
