#include "agent/stacks/stack_table.h"

#include <algorithm>
#include <utility>

#include "wire/control_generated.h"

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

void StackTable::add(const wire::Stacks& other, const std::set<std::uint64_t>& ranks) {
  wire::StacksT theirs;
  other.UnPackTo(&theirs);
  std::vector<std::uint32_t> frames;
  for (const auto& frame : theirs.frames) frames.push_back(add(*frame));
  std::vector<std::uint32_t> stacks;
  for (const auto& stack : theirs.stacks) {
    std::vector<std::uint32_t> ours;
    for (const auto index : stack->frames) {
      if (index < frames.size()) ours.push_back(frames[index]);
    }
    stacks.push_back(add(ours));
  }
  for (const auto& thread : theirs.threads) {
    if (!ranks.contains(thread->rank) || thread->stack >= stacks.size()) continue;
    thread->stack = stacks[thread->stack];
    add(*thread);
  }
  for (const auto& problem : theirs.problems) {
    if (ranks.contains(problem->rank)) add_problem(problem->rank, problem->text);
  }
  for (const auto rank : ranks) {
    if (std::any_of(theirs.left_out.begin(), theirs.left_out.end(),
                    [&](const auto& one) { return one.begin() <= rank && rank < one.end(); }))
      leave_out(rank);
  }
}

std::string StackTable::encode() {
  wire::ControlT control;
  control.is_answer = true;
  control.body.Set(std::exchange(answer_, {}));
  flatbuffers::FlatBufferBuilder builder;
  wire::FinishControlBuffer(builder, wire::Control::Pack(builder, &control));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace meshbus::stacks
