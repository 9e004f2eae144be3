#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "common/bus/conservation.h"
#include "tests/world/linked_brokers.h"
#include "tests/world/talker.h"

namespace meshbus::test {

/// Two hosts with a talker each, both up.
struct TwoTalkers {
  explicit TwoTalkers(std::vector<Setting> settings = {})
      : pair(std::move(settings)), a(pair.loop, *pair.brokers[0]), b(pair.loop, *pair.brokers[1]) {
    up();
  }
  void up() {
    REQUIRE(pair.loop.until([&] { return a.bus->is_up() && b.bus->is_up(); }));
  }
  /// Sends as long as `go` holds, at most so many ahead of what was received.
  void talk(const std::function<bool()>& go, std::uint64_t ahead = 300) {
    REQUIRE(pair.loop.until([&] {
      for (int n = 0; n < 20 && a.sent - b.received < ahead; ++n) a.say(b, 200);
      for (int n = 0; n < 20 && b.sent - a.received < ahead; ++n) b.say(a, 200);
      return !go();
    }));
  }
  bool is_quiet() const {
    return a.bus->traffic().outstanding == 0 && b.bus->traffic().outstanding == 0;
  }
  /// Every sum of spec 9.1, with everything that is alive.
  void check_sums() {
    REQUIRE(pair.loop.until([&] { return is_quiet(); }, std::chrono::seconds(60)));
    for (const auto& broker : pair.brokers) check_conservation(pair.loop, *broker);
    Conservation sums;
    for (Talker* one : {&a, &b}) sums.add("talker", one->bus->traffic());
    for (const auto& problem : sums.problems()) FAIL_CHECK(problem);
    for (Talker* one : {&a, &b}) {
      const auto& sent = one->bus->traffic().sent;
      CHECK(sent.returned + sent.unknown == one->told_numbers.size());
      auto once = one->told_numbers;
      std::sort(once.begin(), once.end());
      CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
    }
    CHECK(a.silently_lost(b).empty());
    CHECK(b.silently_lost(a).empty());
    CHECK(a.problems.empty());
    CHECK(b.problems.empty());
    MESSAGE(sums.to_string() << "; " << a.told_and_came(b) + b.told_and_came(a)
                             << " of unknown fate had been taken");
  }

  LinkedBrokers pair;
  Talker a, b;
};

}  // namespace meshbus::test
