#include "agent/stacks/unwinder.h"

#include <cstdlib>
#include <memory>

#include "agent/stacks/dwarf_expression.h"

namespace meshbus::stacks {

std::vector<NativeFrame> Unwinder::walk(Registers registers, std::size_t most) const {
  std::vector<NativeFrame> frames;
  bool is_return = false;
  while (frames.size() < most && registers.pc != 0) {
    // A call may be the last instruction of its function: its return address is the next one's.
    const auto pc = registers.pc - (is_return ? 1 : 0);
    NativeFrame frame{nullptr, pc};
    if (const auto* mapping = maps_.find(pc); mapping != nullptr) {
      const auto placed = images_.find(pid_, *mapping);
      frame = {placed.image, pc - placed.bias};
    }
    frames.push_back(frame);
    const auto before = registers.stack_pointer();
    const auto step = leave(registers, frame);
    if (!step.goes_on) break;
    // Stacks grow down; only a signal handler may have one of its own.
    if (!step.is_signal && registers.stack_pointer() <= before) break;
    is_return = !step.is_signal;
  }
  return frames;
}

Unwinder::Step Unwinder::leave(Registers& registers, const NativeFrame& frame) const {
  if (frame.image != nullptr) {
    const std::unique_ptr<Dwarf_Frame, void (*)(void*)> table(
        frame.image->find_frame(frame.address), std::free);
    if (table != nullptr) return leave_by_table(registers, table.get());
  }
  return {leave_by_frame_pointer(registers), false};
}

Unwinder::Step Unwinder::leave_by_table(Registers& registers, Dwarf_Frame* table) const {
  bool is_signal = false;
  const int return_register = dwarf_frame_info(table, nullptr, nullptr, &is_signal);
  if (return_register < 0) return {};
  ExpressionInput input{registers, std::nullopt,
                        [this](std::uint64_t address) { return memory_.word(address); }};
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (dwarf_frame_cfa(table, &operations, &count) != 0) return {};
  const auto frame_address = evaluate(operations, count, input);
  if (!frame_address) return {};
  input.frame_address = frame_address->value;

  Registers caller;
  for (std::size_t number = 0; number < Registers::kCount; ++number) {
    Dwarf_Op space[3];
    if (dwarf_frame_register(table, static_cast<int>(number), space, &operations, &count) != 0)
      return {};
    if (count == 0) {
      const bool is_same = operations == nullptr;
      if (is_same) caller.values[number] = registers.values[number];
      continue;
    }
    const auto located = evaluate(operations, count, input);
    if (!located) continue;
    caller.values[number] =
        located->is_value ? std::optional(located->value) : memory_.word(located->value);
  }
  const auto pc = caller.get(static_cast<std::size_t>(return_register));
  if (!pc || *pc == 0) return {};
  caller.values[Registers::kStackPointer] =
      is_signal ? caller.get(Registers::kStackPointer) : std::optional(frame_address->value);
#if defined(__aarch64__)
  // Signed return addresses: user addresses have at most 48 bits.
  caller.pc = *pc & 0xffffffffffffULL;
#else
  caller.pc = *pc;
#endif
  registers = caller;
  return {true, is_signal};
}

bool Unwinder::leave_by_frame_pointer(Registers& registers) const {
  const auto frame = registers.get(Registers::kFramePointer);
  if (!frame || *frame < registers.stack_pointer()) return false;
  const auto next_frame = memory_.word(*frame);
  const auto pc = memory_.word(*frame + 8);
  if (!next_frame || !pc || *pc == 0) return false;
  registers = Registers();
  registers.pc = *pc;
  registers.values[Registers::kFramePointer] = next_frame;
  registers.values[Registers::kStackPointer] = *frame + 16;
  return true;
}

}  // namespace meshbus::stacks
