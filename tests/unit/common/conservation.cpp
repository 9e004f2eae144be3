#include "common/bus/conservation.h"

#include <doctest/doctest.h>

#include "wire/monitor_generated.h"

using namespace meshbus;

namespace {

wire::BrokerCountersT broker_that_balances() {
  wire::BrokerCountersT counters;
  counters.received = 100;
  counters.originated = 10;
  counters.delivered = 90;
  counters.handled = 4;
  counters.returned = 5;
  counters.fate_unknown = 3;
  counters.dropped_no_return = 1;
  counters.dropped_not_needed = 1;
  counters.dropped_false_source = 1;
  counters.dropped_old_incarnation = 2;
  counters.held = 3;
  return counters;
}

Bus::Traffic sender(std::uint64_t taken, std::uint64_t returned, std::uint64_t unknown,
                    std::uint64_t outstanding) {
  Bus::Traffic traffic;
  traffic.sent = {.sent = taken + returned + unknown + outstanding,
                  .taken = taken,
                  .returned = returned,
                  .unknown = unknown};
  traffic.outstanding = outstanding;
  return traffic;
}

Bus::Traffic receiver(std::uint64_t taken) {
  Bus::Traffic traffic;
  traffic.taken = taken;
  return traffic;
}

}  // namespace

TEST_CASE("conservation: sums that hold") {
  Conservation sums;
  CHECK(sums.problems().empty());
  sums.add("tcp:h1:7420", broker_that_balances());
  sums.add("a", sender(10, 2, 3, 1));
  // Some of what is of unknown fate, or on its way, was taken, or nothing of it.
  sums.add("b", receiver(10));
  CHECK(sums.problems().empty());
  sums.add("c", receiver(4));
  CHECK(sums.problems().empty());
  CHECK(sums.to_string() ==
        "16 sent = 10 taken + 2 returned + 3 of unknown fate + 0 to receivers that do not say + 1 "
        "on their way");
}

TEST_CASE("conservation: a message that vanished or appeared is found, wherever it is missing") {
  using Field = std::uint64_t wire::BrokerCountersT::*;
  for (const Field field :
       {&wire::BrokerCountersT::received, &wire::BrokerCountersT::delivered,
        &wire::BrokerCountersT::fate_unknown, &wire::BrokerCountersT::dropped_old_incarnation,
        &wire::BrokerCountersT::held}) {
    Conservation sums;
    auto counters = broker_that_balances();
    ++(counters.*field);
    sums.add("tcp:h1:7420", counters);
    REQUIRE(sums.problems().size() == 1);
    CHECK(sums.problems()[0].starts_with("broker tcp:h1:7420: "));
  }
  {
    Conservation sums;
    auto traffic = sender(10, 0, 0, 0);
    ++traffic.sent.sent;
    sums.add("a", traffic);
    sums.add("b", receiver(10));
    REQUIRE(sums.problems().size() == 1);
    CHECK(sums.problems()[0].starts_with("peer a does not balance"));
  }
  {
    Conservation sums;
    sums.add("a", sender(10, 0, 0, 0));
    sums.add("b", receiver(9));
    CHECK(sums.problems().size() == 1);
  }
  {
    // Something came twice, or came although it was returned.
    Conservation sums;
    sums.add("a", sender(10, 5, 0, 0));
    sums.add("b", receiver(11));
    CHECK(sums.problems().size() == 1);
  }
}
