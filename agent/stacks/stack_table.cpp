#include "agent/stacks/stack_table.h"

namespace meshbus::stacks {
namespace {

/// What FlatBuffers adds to a table, about; and to a string.
constexpr std::size_t kTableSize = 48;
constexpr std::size_t kStringSize = 9;

std::size_t size_of(const std::string& text) {
  return text.empty() ? 0 : text.size() + kStringSize;
}

}  // namespace

std::uint32_t StackTable::add(const wire::StackFrameT& frame) {
  const auto next = static_cast<std::uint32_t>(answer_.frames.size());
  const auto [entry, is_new] = frames_.try_emplace(
      FrameKey(frame.function, frame.file, frame.line, static_cast<int>(frame.kind), frame.source),
      next);
  if (is_new) {
    answer_.frames.push_back(std::make_unique<wire::StackFrameT>(frame));
    size_ += kTableSize + size_of(frame.function) + size_of(frame.file) + size_of(frame.source);
  }
  return entry->second;
}

std::uint32_t StackTable::add(const std::vector<std::uint32_t>& stack) {
  const auto next = static_cast<std::uint32_t>(answer_.stacks.size());
  const auto [entry, is_new] = stacks_.try_emplace(stack, next);
  if (is_new) {
    answer_.stacks.push_back(std::make_unique<wire::StackT>());
    answer_.stacks.back()->frames = stack;
    size_ += kTableSize + stack.size() * sizeof(std::uint32_t);
  }
  return entry->second;
}

void StackTable::add(const wire::StackThreadT& thread) {
  answer_.threads.push_back(std::make_unique<wire::StackThreadT>(thread));
  size_ += kTableSize + size_of(thread.process) + size_of(thread.name) +
           size_of(thread.kernel_function) + size_of(thread.system_call) + size_of(thread.note);
}

void StackTable::add_problem(std::uint64_t rank, const std::string& text) {
  answer_.problems.push_back(std::make_unique<wire::StackProblemT>());
  answer_.problems.back()->rank = rank;
  answer_.problems.back()->text = text;
  size_ += kTableSize + size_of(text);
}

}  // namespace meshbus::stacks
