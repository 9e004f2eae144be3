#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/stacks/image_cache.h"
#include "agent/stacks/process_maps.h"
#include "agent/stacks/process_memory.h"
#include "agent/stacks/python_layout.h"

namespace meshbus::stacks {

/// The Python functions that the threads of one process are in, read from its memory. The process
/// has no part in it, and need not have debug information.
class PythonStacks {
 public:
  /// A frame as it is while its thread is stopped; resolve() names it later.
  struct Frame {
    std::uint64_t code = 0;
    std::uint64_t instruction = 0;
    /// C called the interpreter for this one: the next native frame of the interpreter belongs to
    /// the Python frame after it.
    bool is_last_of_call = false;
  };
  struct Function {
    std::string name;
    std::string file;
    std::uint32_t line = 0;
  };

  /// Nothing when the process has no Python in it. `why_not`: it has, but it cannot be read.
  static std::optional<PythonStacks> find(pid_t pid, const ProcessMaps& maps,
                                          const ProcessMemory& memory, ImageCache& images,
                                          std::string& why_not);

  /// The innermost frame first, at most `most`. Call it while the thread is stopped.
  std::vector<Frame> walk(pid_t tid, std::size_t most) const;
  std::optional<Function> resolve(const Frame& frame) const;
  /// The image that has the interpreter.
  const ElfImage* interpreter() const noexcept { return image_; }

 private:
  PythonStacks(const ProcessMemory& memory, const PythonLayout& layout, const ElfImage* image)
      : memory_(&memory), layout_(layout), image_(image) {}
  void find_threads(std::uint64_t runtime);
  std::optional<std::string> read_text(std::uint64_t object) const;

  const ProcessMemory* memory_;
  PythonLayout layout_;
  const ElfImage* image_;
  std::map<pid_t, std::uint64_t> threads_;
};

}  // namespace meshbus::stacks
