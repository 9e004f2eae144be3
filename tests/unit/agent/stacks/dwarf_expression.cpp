// The expressions of unwind tables.
#include "agent/stacks/dwarf_expression.h"

#include <doctest/doctest.h>
#include <dwarf.h>

#include <vector>

using namespace meshbus::stacks;

namespace {

Dwarf_Op op(unsigned atom, std::uint64_t number = 0, std::uint64_t second = 0) {
  Dwarf_Op operation{};
  operation.atom = static_cast<std::uint8_t>(atom);
  operation.number = number;
  operation.number2 = second;
  return operation;
}

std::optional<Located> run(const std::vector<Dwarf_Op>& operations) {
  Registers registers;
  registers.values[Registers::kStackPointer] = 0x1000;
  const ExpressionInput input{registers, 0x2000,
                              [](std::uint64_t address) -> std::optional<std::uint64_t> {
                                if (address == 0) return std::nullopt;
                                return address + 1;
                              }};
  return evaluate(operations.data(), operations.size(), input);
}

}  // namespace

TEST_CASE("dwarf_expression: where a register was saved, and what it is worth") {
  const auto saved = run({op(DW_OP_call_frame_cfa), op(DW_OP_plus_uconst, std::uint64_t(-16))});
  REQUIRE(saved);
  CHECK(saved->value == 0x2000 - 16);
  CHECK_FALSE(saved->is_value);
  const auto value = run({op(DW_OP_call_frame_cfa), op(DW_OP_stack_value)});
  REQUIRE(value);
  CHECK(value->is_value);
  const auto based = run({op(DW_OP_bregx, Registers::kStackPointer, 8)});
  REQUIRE(based);
  CHECK(based->value == 0x1008);
}

TEST_CASE("dwarf_expression: the one of a procedure linkage table") {
  // rsp + 8 + ((pc & 15) >= 11) << 3, with the stack pointer for pc.
  const auto found = run({op(DW_OP_breg0 + Registers::kStackPointer, 8), op(DW_OP_breg0 + 7, 12),
                          op(DW_OP_lit15), op(DW_OP_and), op(DW_OP_lit11), op(DW_OP_ge),
                          op(DW_OP_lit3), op(DW_OP_shl), op(DW_OP_plus)});
  if (Registers::kStackPointer == 7) {
    REQUIRE(found);
    CHECK(found->value == 0x1010);
  }
}

TEST_CASE("dwarf_expression: what is unknown, unreadable or broken has no value") {
  CHECK_FALSE(run({}));
  CHECK_FALSE(run({op(DW_OP_breg0, 8)}));
  CHECK_FALSE(run({op(DW_OP_lit0), op(DW_OP_deref)}));
  CHECK_FALSE(run({op(DW_OP_plus)}));
  CHECK_FALSE(run({op(DW_OP_drop)}));
  CHECK_FALSE(run({op(0xff)}));
  CHECK_FALSE(run(std::vector<Dwarf_Op>(1000, op(DW_OP_lit1))));
}
