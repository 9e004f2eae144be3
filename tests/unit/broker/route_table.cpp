#include "broker/router/route_table.h"

#include <doctest/doctest.h>

#include "meshbus/address.h"
#include "wire/codes_generated.h"

using namespace meshbus;

namespace {

Identity identity(std::string text, std::uint64_t key, std::uint64_t incarnation,
                  wire::PeerKind kind = wire::PeerKind::proc) {
  return {.text = std::move(text),
          .key = key,
          .kind = kind,
          .role = wire::Role::proc,
          .incarnation = incarnation,
          .pid = 1};
}

Peer peer(Identity who, ConnectionId connection) {
  return Peer(std::move(who), connection, -1, {.bytes = 1000, .count = 10});
}

}  // namespace

TEST_CASE("route_table: finds who was added, and remembers who left") {
  RouteTable table;
  Peer a = peer(identity("h,a", 1, 11), 1);
  CHECK(table.find(1) == nullptr);
  CHECK(table.find_gone(1) == nullptr);
  CHECK(table.add(a) == nullptr);
  CHECK(table.find(1) == &a);
  CHECK(table.size() == 1);
  table.remove(a);
  CHECK(table.find(1) == nullptr);
  REQUIRE(table.find_gone(1) != nullptr);
  CHECK(*table.find_gone(1) == "h,a");
  table.add(a);
  CHECK(table.find_gone(1) == nullptr);
}

TEST_CASE("route_table: of two processes with one bootstrap the first is the proc") {
  RouteTable table;
  Peer first = peer(identity("h,a", 1, 11), 1);
  table.add(first);
  auto second = identity("h,a", 1, 11);
  CHECK(table.may_add(second).has_value());  // the same process, on another connection
  second.pid = 2;
  const auto refused = table.may_add(second);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::identity_mismatch);
  CHECK(refused.error().detail() ==
        "h,a is process 1, which lives; process 2 was started with the same bootstrap and cannot "
        "be that proc, too");
  // A restarted proc is another incarnation, and another process.
  second.incarnation = 12;
  CHECK(table.may_add(second).has_value());
  table.remove(first);
  second.incarnation = 11;
  CHECK(table.may_add(second).has_value());
}

TEST_CASE("route_table: two texts of one key do not meet") {
  RouteTable table;
  Peer a = peer(identity("h,a", 1, 11), 1);
  table.add(a);
  const auto refused = table.may_add(identity("h,b", 1, 12));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::identity_mismatch);
  // Nor one after the other, while messages for the first may be under way.
  table.remove(a);
  CHECK_FALSE(table.may_add(identity("h,b", 1, 12)).has_value());
  CHECK(table.may_add(identity("h,a", 1, 12)).has_value());
}

TEST_CASE(
    "route_table: two real names of one host that share a key: the second is refused, the first "
    "stays") {
  // Found by search, 6 * 10^9 keys long; nobody meets such a pair by chance.
  const ProcId first = ProcId::parse("unix:@h,rank_zn5qjwezae4wg").value();
  const ProcId second = ProcId::parse("unix:@h,rank_dyw7oofvj6xbc").value();
  REQUIRE(first.key() == second.key());
  RouteTable table;
  Peer a = peer(identity(first.to_string(), first.key(), 11), 1);
  REQUIRE(table.may_add(a.identity).has_value());
  table.add(a);
  const auto refused = table.may_add(identity(second.to_string(), second.key(), 12));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code() == ErrorCode::identity_mismatch);
  CHECK(refused.error().detail() ==
        "the key of unix:@h,rank_dyw7oofvj6xbc is also that of unix:@h,rank_zn5qjwezae4wg, which "
        "is registered; use another name");
  CHECK(table.find(second.key()) == &a);
}

TEST_CASE(
    "route_table: the same life may come again on a new connection, and the old one's end changes "
    "nothing") {
  RouteTable table;
  Peer old_connection = peer(identity("h,a", 1, 11), 1);
  table.add(old_connection);
  REQUIRE(table.may_add(old_connection.identity).has_value());
  Peer new_connection = peer(identity("h,a", 1, 11), 2);
  CHECK(table.add(new_connection) == &old_connection);
  table.remove(old_connection);
  CHECK(table.find(1) == &new_connection);
  CHECK(table.may_add(identity("h,a", 1, 11)).has_value());
}

TEST_CASE(
    "route_table: another life with a token takes the place, and the one before is over for good") {
  RouteTable table;
  Peer first = peer(identity("h,a", 1, 11), 1);
  Peer second = peer(identity("h,a", 1, 12), 2);
  table.add(first);
  REQUIRE(table.may_add(second.identity).has_value());
  CHECK(table.add(second) == &first);
  const auto back = table.may_add(first.identity);
  REQUIRE_FALSE(back.has_value());
  CHECK(back.error().code() == ErrorCode::identity_mismatch);
  table.remove(second);
  CHECK_FALSE(table.may_add(first.identity).has_value());
}

TEST_CASE("route_table: a launcher's name in use is not given to another") {
  RouteTable table;
  Peer there = peer(identity("h,client-1", 1, 11, wire::PeerKind::launcher), 1);
  table.add(there);
  CHECK_FALSE(table.may_add(identity("h,client-1", 1, 12, wire::PeerKind::launcher)).has_value());
  CHECK(table.may_add(identity("h,client-1", 1, 11, wire::PeerKind::launcher)).has_value());
  table.remove(there);
  CHECK(table.may_add(identity("h,client-1", 1, 12, wire::PeerKind::launcher)).has_value());
}

TEST_CASE("route_table: the memory of those who left is bounded") {
  RouteTable table(/*gone_limit=*/3);
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::uint64_t key = 1; key <= 5; ++key) {
    peers.push_back(std::make_unique<Peer>(
        peer(identity("h,p" + std::to_string(key), key, 1), static_cast<ConnectionId>(key))));
    table.add(*peers.back());
    table.remove(*peers.back());
  }
  CHECK(table.find_gone(2) == nullptr);
  CHECK(table.find_gone(3) != nullptr);
  CHECK(table.find_gone(5) != nullptr);
}

TEST_CASE("route_table: launchers of observers and clients displace nobody who left") {
  RouteTable table(/*gone_limit=*/2, /*gone_guests_limit=*/2);
  std::vector<std::unique_ptr<Peer>> peers;
  const auto come_and_leave = [&](std::string text, std::uint64_t key, wire::PeerKind kind,
                                  wire::Role role) {
    Identity who = identity(std::move(text), key, 1, kind);
    who.role = role;
    peers.push_back(std::make_unique<Peer>(peer(std::move(who), static_cast<ConnectionId>(key))));
    table.add(*peers.back());
    table.remove(*peers.back());
  };
  come_and_leave("h,a", 1, wire::PeerKind::proc, wire::Role::proc);
  come_and_leave("h,client-2", 2, wire::PeerKind::launcher, wire::Role::operate);
  for (std::uint64_t key = 3; key <= 6; ++key)
    come_and_leave("h,client-" + std::to_string(key), key, wire::PeerKind::launcher,
                   key % 2 == 0 ? wire::Role::observe : wire::Role::proc);
  CHECK(table.find_gone(1) != nullptr);
  CHECK(table.find_gone(2) != nullptr);
  CHECK(table.find_gone(4) == nullptr);
  CHECK(table.find_gone(5) != nullptr);
  CHECK(table.find_gone(6) != nullptr);
  table.forget_guests();
  CHECK(table.find_gone(6) != nullptr);
  table.forget_guests();
  CHECK(table.find_gone(6) == nullptr);
  CHECK(table.find_gone(2) != nullptr);
}

TEST_CASE("recent_set: what was there at two calls in a row is forgotten, and nothing else") {
  RecentSet<int, int> set(3);
  set.add(1, 10);
  set.forget_older();
  CHECK(set.contains(1));
  set.add(2, 20);
  set.forget_older();
  CHECK_FALSE(set.contains(1));
  CHECK(set.contains(2));
  // Those that the limit has displaced are not counted again.
  for (int key = 3; key <= 6; ++key) set.add(key, 0);
  set.forget_older();
  CHECK(set.size() == 3);
  set.clear();
  CHECK(set.size() == 0);
  set.add(7, 70);
  set.forget_older();
  CHECK(set.contains(7));
}

TEST_CASE("recent_set: never holds more than its limit, whatever is erased and added again") {
  RecentSet<int, int> set(3);
  for (int round = 0; round < 10; ++round) {
    for (int key = 0; key < 3; ++key) {
      set.add(key, round);
      set.erase(key);
      set.add(key, round);
    }
    CHECK(set.size() <= 3);
  }
  CHECK(set.find(2) != nullptr);
  CHECK(*set.find(2) == 9);
}

TEST_CASE("route_table: a name and a life belong to one user, also when they have left") {
  RouteTable table;
  const auto of = [](const char* user, wire::PeerKind kind = wire::PeerKind::launcher) {
    Identity who = identity("h,client", 1, 11, kind);
    who.user = user;
    return who;
  };
  Peer alice = peer(of("operator alice"), 1);
  CHECK(table.may_add(alice.identity).has_value());
  table.add(alice);
  CHECK(table.may_add(of("operator alice")).has_value());
  CHECK(table.may_add(of("observer alice")).has_value());
  for (const char* other : {"client bob", ""}) {
    REQUIRE_FALSE(table.may_add(of(other)).has_value());
    CHECK(table.may_add(of(other)).error().detail() ==
          "the name h,client is in use by operator alice");
  }
  table.remove(alice);
  CHECK(table.may_add(of("operator alice")).has_value());
  CHECK_FALSE(table.may_add(of("client bob")).has_value());
  // The name of a controller is nobody's own.
  CHECK(table.may_add(of("client bob", wire::PeerKind::controller)).has_value());
}
