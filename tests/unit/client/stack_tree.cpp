// The stacks of many ranks as one tree.
#include "client/src/stacks/stack_tree.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace meshbus;

namespace {

/// One host's answer. Frames are given by their functions, the innermost first.
class Answer {
 public:
  Answer& thread(std::uint64_t rank, const std::string& name,
                 const std::vector<std::string>& functions, const std::string& call = "futex") {
    auto thread = std::make_unique<wire::StackThreadT>();
    thread->rank = rank;
    thread->process = "python3";
    thread->name = name;
    thread->state = 'S';
    thread->system_call = call;
    thread->stack = static_cast<std::uint32_t>(stacks_.stacks.size());
    stacks_.stacks.push_back(std::make_unique<wire::StackT>());
    for (const auto& function : functions) {
      stacks_.stacks.back()->frames.push_back(static_cast<std::uint32_t>(stacks_.frames.size()));
      stacks_.frames.push_back(std::make_unique<wire::StackFrameT>());
      stacks_.frames.back()->function = function;
      stacks_.frames.back()->file = "/srv/train.py";
      stacks_.frames.back()->line = 7;
      stacks_.frames.back()->kind = wire::FrameKind::python;
    }
    stacks_.threads.push_back(std::move(thread));
    return *this;
  }
  wire::StacksT& stacks() { return stacks_; }

 private:
  wire::StacksT stacks_;
};

}  // namespace

TEST_CASE("stack_tree: what ranks share is there once, and the odd rank comes first") {
  Answer here;
  Answer there;
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    (rank < 2 ? here : there)
        .thread(rank, "",
                rank == 2 ? std::vector<std::string>{"read", "load", "main"}
                          : std::vector<std::string>{"reduce", "main"},
                rank == 2 ? "read(pipe)" : "futex");
  }
  StackTree tree;
  tree.add(here.stacks());
  tree.add(there.stacks());
  CHECK(tree.ranks() == std::set<std::uint64_t>{0, 1, 2, 3});
  CHECK(tree.text(false) ==
        "rank 2, unlike most: read (train.py:7), in read(pipe)\n"
        "\n"
        "python3, main thread, 4 ranks: 0-3\n"
        "  main (train.py:7)\n"
        "  ├─ rank 2\n"
        "  │  load (train.py:7)\n"
        "  │  read (train.py:7)\n"
        "  │  · in read(pipe)\n"
        "  └─ 3 ranks: 0-1,3\n"
        "     reduce (train.py:7)\n"
        "     · in futex\n");
}

TEST_CASE("stack_tree: there is no odd rank where all are alike, or no way has most of them") {
  StackTree alike;
  Answer same;
  for (std::uint64_t rank = 0; rank < 3; ++rank) same.thread(rank, "", {"wait", "main"});
  alike.add(same.stacks());
  CHECK(alike.odd_ranks().empty());
  StackTree apart;
  Answer each;
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    each.thread(rank, "", {"f" + std::to_string(rank % 2), "main"});
  apart.add(each.stacks());
  CHECK(apart.odd_ranks().empty());
}

TEST_CASE("stack_tree: a rank whose other thread is elsewhere is odd when main threads are alike") {
  StackTree tree;
  Answer answer;
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    answer.thread(rank, "", {"join", "main"})
        .thread(rank, "io", {rank == 1 ? "send" : "idle", "loop"});
  tree.add(answer.stacks());
  const auto odd = tree.odd_ranks();
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].ranks == std::set<std::uint64_t>{1});
  CHECK(odd[0].where == "send (train.py:7), in futex");
  CHECK(tree.text(true).find("thread io") == std::string::npos);
}

TEST_CASE("stack_tree: one of several threads of a pool that is elsewhere makes its rank odd") {
  StackTree tree;
  Answer answer;
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    answer.thread(rank, "pool", {"idle", "loop"})
        .thread(rank, "pool", {rank == 2 ? "step" : "idle", "loop"});
  tree.add(answer.stacks());
  const auto odd = tree.odd_ranks();
  REQUIRE(odd.size() == 1);
  CHECK(odd[0].ranks == std::set<std::uint64_t>{2});
  CHECK(odd[0].where == "step (train.py:7), in futex");
}

TEST_CASE("stack_tree: indexes that point nowhere, and characters that terminals obey") {
  Answer answer;
  answer.thread(0, "a\x1b[2J", {"f\n"});
  answer.stacks().stacks[0]->frames.push_back(99);
  answer.thread(1, "b", {});
  answer.stacks().threads.back()->stack = 77;
  StackTree tree;
  tree.add(answer.stacks());
  const auto text = tree.text(false);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("f? (train.py:7)") != std::string::npos);
}

TEST_CASE("stack_tree: json has each different stack once, the rarest first") {
  Answer answer;
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    answer.thread(rank, "", {rank == 2 ? "b" : "a", "main"});
  StackTree tree;
  tree.add(answer.stacks());
  const auto json = tree.json();
  REQUIRE(json.at("stacks").size() == 2);
  CHECK(json.at("stacks")[0].at("ranks") == "2");
  CHECK(json.at("stacks")[0].at("frames")[0].at("function") == "b");
  CHECK(json.at("stacks")[0].at("frames")[0].at("language") == "python");
  CHECK(json.at("stacks")[1].at("ranks") == "0-1");
  CHECK(json.at("odd")[0].at("ranks") == "2");
}
