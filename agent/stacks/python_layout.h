#pragma once

#include <cstdint>
#include <optional>

#include "agent/stacks/process_memory.h"

namespace meshbus::stacks {

/// Where CPython keeps what says which functions a thread is in: offsets, in bytes, in its
/// structures. Large because: it has a member for each offset.
/// They were the same in all releases of one minor version (64 bits, not
/// free-threaded).
struct PythonLayout {
  std::uint64_t interpreters = 0;  ///< In _PyRuntime: the first interpreter.
  std::uint64_t next_interpreter = 0;
  std::uint64_t threads = 0;  ///< In an interpreter: its first thread.
  std::uint64_t next_thread = 0;
  std::uint64_t thread_number = 0;            ///< In a thread: what the kernel calls it.
  std::optional<std::uint64_t> c_frame = {};  ///< In a thread, before 3.13.
  std::uint64_t current_frame = 0;            ///< In that, or in the thread.
  std::uint64_t code = 0;                     ///< In a frame, like the next ones.
  std::uint64_t instruction = 0;
  std::uint64_t previous = 0;
  std::uint64_t owner = 0;
  /// In a frame of 3.11: whether the interpreter was called for it. Later versions have a frame of
  /// their own for that.
  std::optional<std::uint64_t> is_entry = {};
  std::uint64_t filename = 0;  ///< In a code object, like the next ones.
  std::uint64_t qualified_name = 0;
  std::uint64_t line_table = 0;
  std::uint64_t first_line = 0;
  std::uint64_t instructions = 0;
  std::uint64_t string_length = 0;
  std::uint64_t string_state = 0;
  std::uint64_t ascii_header = 0;
  std::uint64_t unicode_header = 0;
  std::uint64_t bytes_size = 0;
  std::uint64_t bytes_data = 0;

  /// For a version as in PY_VERSION_HEX. From 3.13 on the interpreter says it itself, in
  /// `_PyRuntime`, which is at `runtime`. Empty: a version that is not known here.
  static std::optional<PythonLayout> find(std::uint64_t version, const ProcessMemory& memory,
                                          std::uint64_t runtime);
};

/// _PyInterpreterFrame.owner of a frame that stands for a call from C (3.12 and later).
inline constexpr std::uint8_t kOwnedByCStack = 3;

}  // namespace meshbus::stacks
