#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "common/unique_fd.h"
#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// Carries our stdin to ranks, only as fast as they read it, on a thread of its own. A rank that ended or closed its stdin is left out;
/// when none is left, or at the end of our stdin, it is over.
class InputPump {
 public:
  InputPump(ProcMesh& mesh, std::vector<std::uint64_t> ranks);
  /// Stops, also in the middle.
  ~InputPump();
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

 private:
  void run();
  ProcMesh& mesh_;
  std::vector<std::uint64_t> ranks_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace meshbus::cli
