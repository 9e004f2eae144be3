#include "agent/stacks/dwarf_expression.h"

#include <dwarf.h>

#include <vector>

namespace meshbus::stacks {
namespace {

constexpr std::size_t kMostSteps = 256;

/// One evaluation: a stack of words.
class Evaluation {
 public:
  explicit Evaluation(const ExpressionInput& input) : input_(input) {}

  /// False: it cannot be evaluated.
  bool step(const Dwarf_Op& operation);
  bool is_value() const noexcept { return is_value_; }
  std::optional<std::uint64_t> top() const {
    if (stack_.empty()) return std::nullopt;
    return stack_.back();
  }

 private:
  bool push(std::optional<std::uint64_t> value) {
    if (!value) return false;
    stack_.push_back(*value);
    return true;
  }
  bool push_register(std::size_t number, std::uint64_t offset) {
    const auto value = input_.registers.get(number);
    return push(value ? std::optional(*value + offset) : std::nullopt);
  }
  std::optional<std::uint64_t> pop() {
    const auto value = top();
    if (value) stack_.pop_back();
    return value;
  }
  bool combine(std::uint8_t operation);

  const ExpressionInput& input_;
  std::vector<std::uint64_t> stack_;
  bool is_value_ = false;
};

bool Evaluation::combine(std::uint8_t operation) {
  const auto second = pop();
  const auto first = pop();
  if (!first || !second) return false;
  const auto a = *first;
  const auto b = *second;
  switch (operation) {
    case DW_OP_plus: return push(a + b);
    case DW_OP_minus: return push(a - b);
    case DW_OP_mul: return push(a * b);
    case DW_OP_and: return push(a & b);
    case DW_OP_or: return push(a | b);
    case DW_OP_xor: return push(a ^ b);
    case DW_OP_shl: return push(b < 64 ? a << b : 0);
    case DW_OP_shr: return push(b < 64 ? a >> b : 0);
    case DW_OP_eq: return push(a == b ? 1 : 0);
    case DW_OP_ne: return push(a != b ? 1 : 0);
    case DW_OP_ge:
      return push(static_cast<std::int64_t>(a) >= static_cast<std::int64_t>(b) ? 1 : 0);
    case DW_OP_gt: return push(static_cast<std::int64_t>(a) > static_cast<std::int64_t>(b) ? 1 : 0);
    case DW_OP_le:
      return push(static_cast<std::int64_t>(a) <= static_cast<std::int64_t>(b) ? 1 : 0);
    case DW_OP_lt: return push(static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? 1 : 0);
    default: return false;
  }
}

bool Evaluation::step(const Dwarf_Op& operation) {
  const auto atom = operation.atom;
  if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
    return push_register(atom - DW_OP_breg0, operation.number);
  if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) return push(atom - DW_OP_lit0);
  if (atom >= DW_OP_reg0 && atom <= DW_OP_reg31) {
    is_value_ = true;
    return push_register(atom - DW_OP_reg0, 0);
  }
  switch (atom) {
    case DW_OP_bregx: return push_register(operation.number, operation.number2);
    case DW_OP_regx: is_value_ = true; return push_register(operation.number, 0);
    case DW_OP_call_frame_cfa: return push(input_.frame_address);
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
    case DW_OP_addr: return push(operation.number);
    case DW_OP_dup: return push(top());
    case DW_OP_drop: return pop().has_value();
    case DW_OP_plus_uconst: {
      const auto value = pop();
      return push(value ? std::optional(*value + operation.number) : std::nullopt);
    }
    case DW_OP_deref: {
      const auto address = pop();
      return push(address ? input_.memory(*address) : std::nullopt);
    }
    case DW_OP_stack_value: is_value_ = true; return true;
    case DW_OP_nop: return true;
    default: return combine(atom);
  }
}

}  // namespace

std::optional<Located> evaluate(const Dwarf_Op* operations, std::size_t count,
                                const ExpressionInput& input) {
  if (count == 0 || count > kMostSteps) return std::nullopt;
  Evaluation evaluation(input);
  for (std::size_t i = 0; i < count; ++i) {
    if (!evaluation.step(operations[i])) return std::nullopt;
  }
  const auto value = evaluation.top();
  if (!value) return std::nullopt;
  return Located{*value, evaluation.is_value()};
}

}  // namespace meshbus::stacks
