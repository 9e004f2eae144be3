#include "broker/peers/debts.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <utility>
#include <vector>

using namespace meshbus;

TEST_CASE("debts: what leaves is told to whom it belongs, in order, and runs of one are one") {
  Debts debts;
  debts.add(1, 100);
  debts.add(1, 50);
  debts.add(2, 10);
  debts.add(Debts::kNobody, 30);
  debts.add(1, 5);
  std::vector<std::pair<std::uint64_t, std::size_t>> told;
  const auto tell = [&](std::uint64_t debtor, std::size_t bytes) { told.emplace_back(debtor, bytes); };
  debts.take(120, tell);
  CHECK(told == std::vector<std::pair<std::uint64_t, std::size_t>>{{1, 120}});
  told.clear();
  debts.take(70, tell);
  CHECK(told == std::vector<std::pair<std::uint64_t, std::size_t>>{{1, 30}, {2, 10}});
  told.clear();
  debts.take(SIZE_MAX, tell);
  CHECK(told == std::vector<std::pair<std::uint64_t, std::size_t>>{{1, 5}});
  CHECK(debts.empty());
  debts.take(1, tell);
  CHECK(told.size() == 1);
}

TEST_CASE("debts: what is forgiven is told at once, and keeps its place") {
  Debts debts;
  debts.add(1, 100);
  debts.add(2, 10);
  std::vector<std::pair<std::uint64_t, std::size_t>> told;
  const auto tell = [&](std::uint64_t debtor, std::size_t bytes) { told.emplace_back(debtor, bytes); };
  debts.forgive(tell);
  CHECK(told == std::vector<std::pair<std::uint64_t, std::size_t>>{{1, 100}, {2, 10}});
  told.clear();
  debts.add(3, 7);
  debts.take(110, tell);
  CHECK(told.empty());
  debts.take(7, tell);
  CHECK(told == std::vector<std::pair<std::uint64_t, std::size_t>>{{3, 7}});
}

TEST_CASE("debts: nothing is told twice or forgotten") {
  std::mt19937 random(20261120);
  Debts debts;
  std::map<std::uint64_t, std::size_t> owed;
  const auto tell = [&](std::uint64_t debtor, std::size_t bytes) {
    REQUIRE(owed[debtor] >= bytes);
    owed[debtor] -= bytes;
  };
  for (int i = 0; i < 20000; ++i) {
    if (random() % 3 != 0) {
      const std::uint64_t debtor = random() % 5;
      const std::size_t bytes = 1 + random() % 2000;
      debts.add(debtor == 0 ? Debts::kNobody : debtor, bytes);
      if (debtor != 0) owed[debtor] += bytes;
    } else {
      debts.take(random() % 5000, tell);
    }
  }
  debts.take(SIZE_MAX, tell);
  for (const auto& [debtor, bytes] : owed) CHECK(bytes == 0);
}
