#include "agent/host/replies/collection.h"

#include <doctest/doctest.h>

#include <string>

using namespace meshbus;
using namespace meshbus::host;
using namespace std::chrono_literals;

namespace {

constexpr Collection::Time start{100s};

Collection collection(std::string_view reducer, std::uint64_t ranks) {
  return {Reducers::builtin().find(reducer).value(), ranks};
}

std::string ranks_of(const Collected& collected) {
  std::string text;
  for (const auto& run : collected.reduced->ranks.runs())
    text += std::to_string(run.begin) + ".." + std::to_string(run.end) + " ";
  return text;
}

}  // namespace

TEST_CASE("collection: each rank counts once: what it said first, be it a value or an error") {
  auto sum = collection("sum", 4);
  sum.settle(0, Bytes("3"), start);
  sum.settle(0, Bytes("100"), start);
  sum.settle(2, fail(ErrorCode::call_error, "boom"), start);
  sum.settle(2, Bytes("100"), start);
  sum.settle(7, Bytes("100"), start);  // nobody has asked such a one
  CHECK_FALSE(sum.is_complete());
  sum.settle(3, Bytes("4"), start);
  sum.settle(1, Bytes("abc"), start);
  REQUIRE(sum.is_complete());
  const auto all = sum.take(start);
  REQUIRE(all.reduced.has_value());
  CHECK(to_text(all.reduced->value) == "7");
  CHECK(ranks_of(all) == "0..1 3..4 ");
  REQUIRE(all.problems.size() == 2);
  CHECK(all.problems[0].error.to_string() ==
        "configuration_error: reducer sum: expected a number, found \"abc\"");
  CHECK(all.problems[0].ranks == std::vector<RankBlock>{{1, 2}});
  CHECK(all.problems[1].error.to_string() == "call_error: boom");
  CHECK(all.parts == 0);
}

TEST_CASE(
    "collection: parts are due 1 ms after the first answer, then at growing intervals, and say "
    "nothing twice") {
  auto sum = collection("sum", 5);
  CHECK_FALSE(sum.next_due().has_value());
  sum.settle(0, Bytes("1"), start);
  CHECK(sum.next_due() == start + 1ms);
  sum.settle(1, Bytes("2"), start);
  sum.settle(2, fail(ErrorCode::call_error, "boom"), start);
  const auto first = sum.take(start + 1ms);
  CHECK(to_text(first.reduced->value) == "3");
  CHECK(first.problems.size() == 1);
  CHECK(first.parts == 0);
  sum.settle(3, Bytes("4"), start + 2ms);
  CHECK(sum.next_due() == start + 3ms);
  sum.settle_rest(Error(ErrorCode::timeout, "late"));
  CHECK_FALSE(sum.next_due().has_value());
  const auto last = sum.take(start + 2ms);
  CHECK(to_text(last.reduced->value) == "4");
  CHECK(ranks_of(last) == "3..4 ");
  REQUIRE(last.problems.size() == 1);
  CHECK(last.problems[0].error.code() == ErrorCode::timeout);
  CHECK(last.problems[0].ranks == std::vector<RankBlock>{{4, 5}});
  CHECK(last.parts == 1);
}

TEST_CASE(
    "collection: equal errors are told once, with their ranks; many different ones lose their "
    "words") {
  auto sum = collection("sum", 2000);
  for (const std::uint64_t rank : std::initializer_list<std::uint64_t>{5, 1, 3, 2, 0, 9})
    sum.settle(rank, fail(ErrorCode::no_such_port, "no actor"), start);
  auto told = sum.take(start);
  CHECK_FALSE(told.reduced.has_value());
  REQUIRE(told.problems.size() == 1);
  CHECK(told.problems[0].ranks == std::vector<RankBlock>{{0, 4}, {5, 6}, {9, 10}});
  const std::string long_text(2000, 'x');
  for (std::uint64_t rank = 10; rank < 2000; ++rank)
    sum.settle(rank, fail(ErrorCode::call_error, std::to_string(rank) + long_text), start);
  told = sum.take(start);
  std::size_t words = 0;
  for (const auto& problem : told.problems) words += problem.error.detail().size();
  CHECK(words <= std::size_t{256} * 1024);
  CHECK(encode(told).size() < std::size_t{512} * 1024);
}

TEST_CASE("collection: answers have a limit, and so have those of a host that only grow") {
  auto count = collection("count", 2);
  count.settle(0, Bytes(std::string(kCollectedAnswerLimit, 'x')), start);
  count.settle(1, Bytes(std::string(kCollectedAnswerLimit + 1, 'x')), start);
  const auto counted = count.take(start);
  CHECK(to_text(counted.reduced->value) == "1");
  CHECK(counted.problems.at(0).error.code() == ErrorCode::too_large);
  auto overlay = collection("overlay", 3);
  const auto large = [](std::uint64_t rank) {
    return std::to_string(rank) + ".." + std::to_string(rank + 1) + "=" +
           std::string(std::size_t{100} * 1024, 'a');
  };
  for (std::uint64_t rank = 0; rank < 3; ++rank) overlay.settle(rank, Bytes(large(rank)), start);
  const auto merged = overlay.take(start);
  CHECK(ranks_of(merged) == "0..2 ");
  CHECK(merged.problems.at(0).error.code() == ErrorCode::too_large);
}
