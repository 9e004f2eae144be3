// One answer from several looks.
#include "agent/stacks/stack_table.h"

#include <doctest/doctest.h>

#include "wire/control_generated.h"

using namespace meshbus;
using namespace meshbus::stacks;

namespace {

wire::StackFrameT frame(const std::string& function) {
  wire::StackFrameT made;
  made.function = function;
  return made;
}

wire::StackThreadT thread(std::uint64_t rank, std::uint32_t stack) {
  wire::StackThreadT made;
  made.rank = rank;
  made.stack = stack;
  return made;
}

wire::StacksT answer_of(StackTable& table) {
  const auto text = table.encode();
  const auto* const control = wire::GetControl(reinterpret_cast<const std::uint8_t*>(text.data()));
  REQUIRE(control->body_as_Stacks() != nullptr);
  wire::StacksT answer;
  control->body_as_Stacks()->UnPackTo(&answer);
  return answer;
}

}  // namespace

TEST_CASE("stack_table: another look's frames and stacks are taken over, equal ones once") {
  StackTable theirs;
  const auto outer = theirs.add(frame("main"));
  const auto inner = theirs.add(frame("read"));
  theirs.add(thread(1, theirs.add(std::vector{inner, outer})));
  theirs.add_problem(1, "why");
  theirs.leave_out(2);
  const auto text = theirs.encode();
  const auto* const other =
      wire::GetControl(reinterpret_cast<const std::uint8_t*>(text.data()))->body_as_Stacks();

  StackTable ours;
  const auto main = ours.add(frame("main"));
  ours.add(thread(0, ours.add(std::vector{main})));
  ours.add(*other, {1, 2});
  const auto answer = answer_of(ours);
  CHECK(answer.frames.size() == 2);
  REQUIRE(answer.threads.size() == 2);
  const auto& stack = answer.stacks.at(answer.threads[1]->stack)->frames;
  REQUIRE(stack.size() == 2);
  CHECK(answer.frames.at(stack[0])->function == "read");
  CHECK(answer.frames.at(stack[1])->function == "main");
  CHECK(answer.problems.size() == 1);
  REQUIRE(answer.left_out.size() == 1);
  CHECK(answer.left_out[0].begin() == 2);
}

TEST_CASE("stack_table: another user's look says nothing of other ranks, and no false indexes") {
  wire::StacksT lies;
  lies.frames.push_back(std::make_unique<wire::StackFrameT>(frame("f")));
  lies.stacks.push_back(std::make_unique<wire::StackT>());
  lies.stacks[0]->frames = {0, 7, 4'000'000'000};
  for (const auto& [rank, stack] : {std::pair{1, 0}, {1, 9}, {2, 0}})
    lies.threads.push_back(std::make_unique<wire::StackThreadT>(
        thread(static_cast<std::uint64_t>(rank), static_cast<std::uint32_t>(stack))));
  lies.problems.push_back(std::make_unique<wire::StackProblemT>());
  lies.problems[0]->rank = 2;
  lies.left_out.emplace_back(0, UINT64_MAX);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Stacks::Pack(builder, &lies));

  StackTable table;
  table.add(*flatbuffers::GetRoot<wire::Stacks>(builder.GetBufferPointer()), {1});
  const auto answer = answer_of(table);
  REQUIRE(answer.threads.size() == 1);
  CHECK(answer.threads[0]->rank == 1);
  CHECK(answer.stacks.at(answer.threads[0]->stack)->frames.size() == 1);
  CHECK(answer.problems.empty());
  REQUIRE(answer.left_out.size() == 1);
  CHECK(answer.left_out[0].end() == 2);
}
