#include "broker/casts/relayed_casts.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace meshbus;
using namespace std::chrono_literals;

namespace {

const RelayedCasts::Time kCastBegin{100s};

/// How often each host of so many has it in the end, and over how many hosts it went at most.
struct Reach {
  Reach(std::size_t hosts, std::size_t width) : times(hosts, 0) { pass_on(0, hosts, width, 1); }
  void pass_on(std::size_t first, std::size_t count, std::size_t width, std::size_t depth) {
    const auto branches = cast_branches(count, width);
    CHECK(branches.size() <= width);
    if (!branches.empty() && depth > deepest) deepest = depth;
    for (const auto& branch : branches) {
      ++times.at(first + branch.first);
      pass_on(first + branch.first + 1, branch.count - 1, width, depth + 1);
    }
  }
  std::vector<int> times;
  std::size_t deepest = 0;
};

struct SentBodies {
  RelayedCasts::Send send() {
    return [this](std::uint64_t host, std::uint64_t number, MessagePart& body) {
      if (is_full) return false;
      all.push_back(std::to_string(number) + " to " + std::to_string(host) + ": " +
                    std::string(body.view()));
      return true;
    };
  }
  bool is_full = false;
  std::vector<std::string> all;
};
using Texts = std::vector<std::string>;

MessagePart body_of(const std::string& text) {
  return MessagePart(text);
}

}  // namespace

TEST_CASE("relayed_casts: a list of hosts is shared out evenly") {
  struct Row {
    std::size_t hosts, width;
    std::vector<CastBranch> branches;
  };
  for (const Row& row : {Row{0, 16, {}}, Row{1, 16, {{0, 1}}}, Row{3, 16, {{0, 1}, {1, 1}, {2, 1}}},
                         Row{16, 2, {{0, 8}, {8, 8}}}, Row{7, 3, {{0, 3}, {3, 2}, {5, 2}}},
                         Row{4, 3, {{0, 2}, {2, 1}, {3, 1}}}}) {
    CAPTURE(row.hosts);
    CHECK(cast_branches(row.hosts, row.width) == row.branches);
  }
}

TEST_CASE("relayed_casts: the tree has every host once, and is as flat as it can be") {
  for (const std::size_t width : {2U, 3U, 16U}) {
    // What so many levels can hold.
    std::size_t level = width, room = width, depth = 1;
    for (std::size_t hosts = 1; hosts <= 600; ++hosts) {
      if (hosts > room) {
        level *= width;
        room += level;
        ++depth;
      }
      CAPTURE(hosts);
      CAPTURE(width);
      const Reach reach(hosts, width);
      CHECK(reach.times == std::vector<int>(hosts, 1));
      CHECK(reach.deepest == depth);
    }
  }
}

TEST_CASE(
    "relayed_casts: whom nothing reaches for a second is sent it, and is sent the next ones "
    "directly") {
  RelayedCasts relays({.bytes = 100, .limit = 30s});
  SentBodies sent;
  relays.add(7, body_of("a"), {1, 2, 3}, kCastBegin);
  CHECK(relays.is_under_way(7, 2));
  CHECK_FALSE(relays.is_under_way(7, 4));
  CHECK_FALSE(relays.is_under_way(8, 2));
  relays.here(7, 1, kCastBegin + 500ms);
  relays.look(kCastBegin + 1400ms, sent.send());
  CHECK(sent.all.empty());
  sent.is_full = true;
  relays.look(kCastBegin + 1500ms, sent.send());
  CHECK(relays.is_under_way(7, 2));
  sent.is_full = false;
  relays.look(kCastBegin + 1600ms, sent.send());
  CHECK(sent.all == Texts{"7 to 2: a", "7 to 3: a"});
  CHECK(relays.empty());
  CHECK(relays.bytes() == 0);
  CHECK(relays.is_reached(1, kCastBegin + 2s));
  CHECK_FALSE(relays.is_reached(2, kCastBegin + 600s));
  CHECK(relays.is_reached(2, kCastBegin + 602s));
}

TEST_CASE("relayed_casts: one that waits behind an older one that gets on is no trouble") {
  RelayedCasts relays({.bytes = 100, .limit = 30s});
  SentBodies sent;
  relays.add(1, body_of("a"), {1, 2}, kCastBegin);
  relays.add(2, body_of("b"), {1, 2}, kCastBegin);
  relays.here(1, 1, kCastBegin + 900ms);
  relays.look(kCastBegin + 1800ms, sent.send());
  CHECK(sent.all.empty());
  // The other way round it is.
  relays.here(2, 1, kCastBegin + 1900ms);
  relays.look(kCastBegin + 2s, sent.send());
  CHECK(sent.all == Texts{"1 to 2: a"});
}

TEST_CASE("relayed_casts: what it keeps is bounded, in bytes and in time") {
  RelayedCasts relays({.bytes = 10, .limit = 3s});
  CHECK(relays.has_room(1000));
  relays.add(1, body_of("12345678"), {1}, kCastBegin);
  CHECK(relays.has_room(2));
  CHECK_FALSE(relays.has_room(3));
  SentBodies sent;
  sent.is_full = true;
  relays.look(kCastBegin + 2s, sent.send());
  CHECK_FALSE(relays.empty());
  relays.look(kCastBegin + 3s, sent.send());
  CHECK(relays.empty());
  relays.here(1, 1, kCastBegin + 4s);
  CHECK(relays.bytes() == 0);
}
