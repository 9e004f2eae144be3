#include "broker/peers/credit_ledger.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "broker/casts/cast_credits.h"
#include "broker/peers/peer_outbox.h"

using namespace meshbus;

namespace {

using Released = std::vector<std::pair<ConnectionId, std::size_t>>;

void add(CreditLedger& ledger, ConnectionId sender, std::size_t bytes) {
  Charge charge{sender, sender != kNoConnection ? bytes : 0};
  ledger.add(charge, bytes);
  CHECK_FALSE(charge.is_due());
}

wire::Envelope envelope_of(wire::Lane lane) {
  wire::Envelope envelope;
  envelope.mutate_lane(lane);
  return envelope;
}

}  // namespace

TEST_CASE(
    "credit_ledger: what leaves is released to its senders, in order, and runs of one are one") {
  CreditLedger ledger;
  add(ledger, 1, 100);
  add(ledger, 1, 50);
  add(ledger, 2, 10);
  add(ledger, kNoConnection, 30);
  add(ledger, 1, 5);
  Released released;
  const auto note = [&](ConnectionId sender, std::size_t bytes) {
    released.emplace_back(sender, bytes);
  };
  ledger.release(120, note);
  CHECK(released == Released{{1, 120}});
  released.clear();
  ledger.release(70, note);
  CHECK(released == Released{{1, 30}, {2, 10}});
  released.clear();
  ledger.release(SIZE_MAX, note);
  CHECK(released == Released{{1, 5}});
  CHECK(ledger.empty());
  ledger.release(1, note);
  CHECK(released.size() == 1);
}

TEST_CASE("credit_ledger: what is written off is released at once, and keeps its place") {
  CreditLedger ledger;
  add(ledger, 1, 100);
  add(ledger, 2, 10);
  Released released;
  const auto note = [&](ConnectionId sender, std::size_t bytes) {
    released.emplace_back(sender, bytes);
  };
  ledger.write_off(note);
  CHECK(released == Released{{1, 100}, {2, 10}});
  released.clear();
  add(ledger, 3, 7);
  ledger.release(110, note);
  CHECK(released.empty());
  ledger.release(7, note);
  CHECK(released == Released{{3, 7}});
}

TEST_CASE("credit_ledger: nothing is released twice or forgotten") {
  std::mt19937 random(20261120);
  CreditLedger ledger;
  std::map<ConnectionId, std::size_t> charged;
  const auto note = [&](ConnectionId sender, std::size_t bytes) {
    REQUIRE(charged[sender] >= bytes);
    charged[sender] -= bytes;
  };
  for (int i = 0; i < 20000; ++i) {
    if (random() % 3 != 0) {
      const ConnectionId sender = random() % 5;
      const std::size_t bytes = 1 + random() % 2000;
      add(ledger, sender == 0 ? kNoConnection : sender, bytes);
      if (sender != 0) charged[sender] += bytes;
    } else {
      ledger.release(random() % 5000, note);
    }
  }
  ledger.release(SIZE_MAX, note);
  for (const auto& [sender, bytes] : charged) CHECK(bytes == 0);
}

TEST_CASE(
    "peer_outbox: data is charged until it leaves, control never, and what finds no room not at "
    "all") {
  PeerOutbox outbox({.bytes = 1000, .count = 2}, /*is_link=*/false);
  const std::size_t size = sizeof(wire::Envelope) + 3;
  Released released;
  const auto note = [&](ConnectionId sender, std::size_t bytes) {
    released.emplace_back(sender, bytes);
  };
  Charge control{7, 0}, first{7, size}, second{8, size}, third{9, size};
  CHECK(outbox.push(envelope_of(wire::Lane::control), "abc", nullptr, control));
  CHECK(outbox.push(envelope_of(wire::Lane::data), "abc", nullptr, first));
  CHECK(outbox.push(envelope_of(wire::Lane::data), "abc", nullptr, second));
  CHECK_FALSE(outbox.push(envelope_of(wire::Lane::data), "abc", nullptr, third));
  CHECK_FALSE(first.is_due());
  CHECK(third.is_due());
  REQUIRE(outbox.front() != nullptr);
  outbox.pop(note);
  CHECK(released.empty());
  REQUIRE(outbox.front() != nullptr);
  outbox.pop(note);
  CHECK(released == Released{{7, size}, {8, size}});
  CHECK(outbox.empty());
}

TEST_CASE("peer_outbox: each message is taken out with its charge, unless that was written off") {
  PeerOutbox outbox({.bytes = 1000, .count = 10}, /*is_link=*/false);
  const std::size_t size = sizeof(wire::Envelope) + 1;
  const auto push = [&](const std::string& body, ConnectionId sender) {
    Charge charge{sender, sender != kNoConnection ? size : 0};
    REQUIRE(outbox.push(envelope_of(wire::Lane::data), body, nullptr, charge));
  };
  push("a", 7);
  outbox.write_off([](ConnectionId, std::size_t) {});
  push("b", 7);
  push("c", 7);
  push("d", kNoConnection);
  std::vector<std::pair<std::string, std::size_t>> taken;
  outbox.take_all([&](const wire::Envelope&, Bytes body, const Charge& charge) {
    taken.emplace_back(std::string(body), charge.bytes);
  });
  CHECK(taken == std::vector<std::pair<std::string, std::size_t>>{
                     {"a", 0}, {"b", size}, {"c", size}, {"d", 0}});
}

TEST_CASE(
    "cast_credits: the sender gets credit when the last copy has left, and not before all are "
    "made") {
  CastCredits credits;
  Charge charge{5, 1000};
  const auto account = credits.open(charge);
  CHECK(CastCredits::is_account(account));
  CHECK_FALSE(charge.is_due());
  const Charge copy = credits.charge_copy(account, 300);
  CHECK(copy.sender == account);
  CHECK_FALSE(credits.release(account, 300).has_value());
  credits.charge_copy(account, 300);
  credits.charge_copy(account, 300);
  CHECK_FALSE(credits.close(account).has_value());
  CHECK_FALSE(credits.release(account, 450).has_value());
  const auto released = credits.release(account, 150);
  REQUIRE(released.has_value());
  CHECK(released->sender == ConnectionId{5});
  CHECK(released->bytes == 1000);
  CHECK(credits.empty());
  CHECK_FALSE(credits.release(account, 1).has_value());
}

TEST_CASE("cast_credits: a cast whose copies have all left at its end is released at once") {
  CastCredits credits;
  Charge charge{5, 1000};
  const auto account = credits.open(charge);
  credits.charge_copy(account, 300);
  CHECK_FALSE(credits.release(account, 300).has_value());
  const auto released = credits.close(account);
  REQUIRE(released.has_value());
  CHECK(released->bytes == 1000);
}
