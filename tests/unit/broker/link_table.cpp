#include "broker/links/link_table.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "common/loop/reactor.h"

using namespace std::chrono_literals;
using namespace meshbus;

namespace {

constexpr std::size_t kHosts = 300;
const LinkTable::Introducer kOlga{.principal = "olga", .most = 4096, .is_limited = true};
const LinkTable::Introducer kCarl{.principal = "carl", .most = 4096, .is_limited = true};
const LinkTable::Introducer kAlice{.principal = "alice"};

HostAddr host(std::size_t number) {
  return *HostAddr::parse("tcp:127.0.0.1:" + std::to_string(20000 + number));
}

struct Table {
  void introduce(std::size_t number, const LinkTable::Introducer& by) {
    REQUIRE(links.introduce(host(number), true, &by).has_value());
  }
  std::size_t known() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kHosts; ++i)
      count += links.find(host(i).key()) != nullptr ? 1U : 0U;
    return count;
  }
  /// Turns until so many are known, at most for long.
  bool until_known(std::size_t count) {
    const auto end = Reactor::Clock::now() + 20s;
    while (known() != count && Reactor::Clock::now() < end) reactor.turn(5ms);
    return known() == count;
  }
  /// Lets as much time pass as forgets everything that may be forgotten.
  void pass() {
    introduce(kHosts, kOlga);
    const auto end = Reactor::Clock::now() + 20s;
    while (links.find(host(kHosts).key()) != nullptr && Reactor::Clock::now() < end)
      reactor.turn(5ms);
    REQUIRE(links.find(host(kHosts).key()) == nullptr);
  }

  Reactor reactor;
  Counters counters;
  LinkTable links{reactor,
                  counters,
                  nullptr,
                  {.host = *HostAddr::parse("tcp:127.0.0.1:7420"),
                   .insecure = true,
                   .queue = {.bytes = 1024 * 1024, .count = 1024},
                   .forget_after = 20ms},
                  {}};
};

}  // namespace

TEST_CASE("link_table: what an observer alone introduces, and nobody uses, is forgotten") {
  Table table;
  for (std::size_t i = 0; i < kHosts; ++i) table.introduce(i, kOlga);
  CHECK(table.known() == kHosts);
  CHECK(table.until_known(0));
  table.introduce(0, kOlga);
  CHECK(table.known() == 1);
  CHECK(table.until_known(0));
}

TEST_CASE("link_table: a link that others have introduced, too, or an operator, stays") {
  Table table;
  table.introduce(0, kAlice);
  for (const std::size_t shared : {1U, 2U}) table.introduce(shared, kOlga);
  table.introduce(1, kCarl);
  table.introduce(2, kAlice);
  table.introduce(3, kOlga);
  table.introduce(3, kOlga);
  CHECK(table.known() == 4);
  CHECK(table.until_known(3));
  table.pass();
  CHECK(table.known() == 3);
  CHECK(table.links.find(host(3).key()) == nullptr);
}
