#include "agent/stacks/python_layout.h"

#include <array>
#include <cstring>

namespace meshbus::stacks {
namespace {

constexpr std::uint64_t kPython311 = 0x030b;
constexpr std::uint64_t kPython312 = 0x030c;
constexpr std::uint64_t kPython313 = 0x030d;

PythonLayout layout_of_3_11() {
  return {.interpreters = 40,
          .next_interpreter = 0,
          .threads = 16,
          .next_thread = 8,
          .thread_number = 160,
          .c_frame = 56,
          .current_frame = 8,
          .code = 32,
          .instruction = 56,
          .previous = 48,
          .owner = 69,
          .is_entry = 68,
          .filename = 112,
          .qualified_name = 128,
          .line_table = 136,
          .first_line = 72,
          .instructions = 184,
          .string_length = 16,
          .string_state = 32,
          .ascii_header = 48,
          .unicode_header = 72,
          .bytes_size = 16,
          .bytes_data = 32};
}

PythonLayout layout_of_3_12() {
  return {.interpreters = 40,
          .next_interpreter = 0,
          .threads = 72,
          .next_thread = 8,
          .thread_number = 144,
          .c_frame = 56,
          .current_frame = 0,
          .code = 0,
          .instruction = 56,
          .previous = 8,
          .owner = 70,
          .is_entry = std::nullopt,
          .filename = 112,
          .qualified_name = 128,
          .line_table = 136,
          .first_line = 68,
          .instructions = 192,
          .string_length = 16,
          .string_state = 32,
          .ascii_header = 40,
          .unicode_header = 56,
          .bytes_size = 16,
          .bytes_data = 32};
}

/// The beginning of _Py_DebugOffsets of 3.13 (pycore_runtime.h), with which _PyRuntime begins.
/// Large because: it is laid out as CPython has it.
struct DebugOffsets {
  std::array<char, 8> cookie;
  std::uint64_t version, free_threaded;
  std::uint64_t runtime_size, finalizing, interpreters_head;
  std::uint64_t interpreter_size, id, next, threads_head, gc, imports_modules, sysdict, builtins,
      ceval_gil, gil_state, gil_enabled, gil_locked, gil_holder;
  std::uint64_t thread_size, thread_prev, thread_next, thread_interpreter, current_frame, thread_id,
      native_thread_id, datastack_chunk, status;
  std::uint64_t frame_size, previous, executable, instr_ptr, localsplus, owner;
  std::uint64_t code_size, filename, name, qualname, linetable, firstlineno, argcount,
      localsplusnames, localspluskinds, code_adaptive;
};

std::optional<PythonLayout> layout_of_3_13(const ProcessMemory& memory, std::uint64_t runtime) {
  const auto said = memory.get<DebugOffsets>(runtime);
  if (!said || std::memcmp(said->cookie.data(), "xdebugpy", said->cookie.size()) != 0 ||
      said->free_threaded != 0)
    return std::nullopt;
  return PythonLayout{.interpreters = said->interpreters_head,
                      .next_interpreter = said->next,
                      .threads = said->threads_head,
                      .next_thread = said->thread_next,
                      .thread_number = said->native_thread_id,
                      .c_frame = std::nullopt,
                      .current_frame = said->current_frame,
                      .code = said->executable,
                      .instruction = said->instr_ptr,
                      .previous = said->previous,
                      .owner = said->owner,
                      .is_entry = std::nullopt,
                      .filename = said->filename,
                      .qualified_name = said->qualname,
                      .line_table = said->linetable,
                      .first_line = said->firstlineno,
                      .instructions = said->code_adaptive,
                      .string_length = 16,
                      .string_state = 32,
                      .ascii_header = 40,
                      .unicode_header = 56,
                      .bytes_size = 16,
                      .bytes_data = 32};
}

}  // namespace

std::optional<PythonLayout> PythonLayout::find(std::uint64_t version, const ProcessMemory& memory,
                                               std::uint64_t runtime) {
  switch (version >> 16) {
    case kPython311: return layout_of_3_11();
    case kPython312: return layout_of_3_12();
    case kPython313: return layout_of_3_13(memory, runtime);
    default: return std::nullopt;
  }
}

}  // namespace meshbus::stacks
