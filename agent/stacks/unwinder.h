#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/stacks/image_cache.h"
#include "agent/stacks/process_maps.h"
#include "agent/stacks/process_memory.h"
#include "agent/stacks/registers.h"

namespace meshbus::stacks {

/// A function that a thread is in.
struct NativeFrame {
  ElfImage* image = nullptr;  ///< Null: no file has this code (made at run time).
  std::uint64_t address = 0;  ///< In the image: of the call, not of what follows it.
};

/// Walks the native frames of a stopped thread, by the tables that compilers write for exceptions
/// (.eh_frame). Without such a table it goes by frame pointers.
class Unwinder {
 public:
  /// All of these outlive it.
  Unwinder(pid_t pid, const ProcessMaps& maps, const ProcessMemory& memory, ImageCache& images)
      : pid_(pid), maps_(maps), memory_(memory), images_(images) {}

  /// The innermost frame first, at most `most`.
  std::vector<NativeFrame> walk(Registers registers, std::size_t most) const;

 private:
  struct Step {
    bool goes_on = false;
    bool is_signal = false;  ///< The frame left was made by a signal: the next pc is no return.
  };
  Step leave(Registers& registers, const NativeFrame& frame) const;
  Step leave_by_table(Registers& registers, Dwarf_Frame* table) const;
  bool leave_by_frame_pointer(Registers& registers) const;

  pid_t pid_;
  const ProcessMaps& maps_;
  const ProcessMemory& memory_;
  ImageCache& images_;
};

}  // namespace meshbus::stacks
