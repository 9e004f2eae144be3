#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "wire/stacks_generated.h"

namespace meshbus::stacks {

/// Collects the answer: ranks of one program are in the same few functions, so each frame and each
/// stack is there once.
class StackTable {
 public:
  std::uint32_t add(const wire::StackFrameT& frame);
  /// `stack`: indexes that add() gave.
  std::uint32_t add(const std::vector<std::uint32_t>& stack);
  void add(const wire::StackThreadT& thread);
  void add_problem(std::uint64_t rank, const std::string& text);
  void leave_out(std::uint64_t rank) { answer_.left_out.emplace_back(rank, rank + 1); }

  /// All that another look has found of these ranks. What it says of others is left out, and what
  /// contradicts itself, because it comes from a process of another user.
  void add(const wire::Stacks& other, const std::set<std::uint64_t>& ranks);

  /// How many bytes the answer has so far, about.
  std::size_t size() const noexcept { return size_; }
  /// The answer, as one control message. Nothing is left here.
  std::string encode();

 private:
  using FrameKey = std::tuple<std::string, std::string, std::uint32_t, int, std::string>;

  wire::StacksT answer_;
  std::map<FrameKey, std::uint32_t> frames_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> stacks_;
  std::size_t size_ = 0;
};

}  // namespace meshbus::stacks
