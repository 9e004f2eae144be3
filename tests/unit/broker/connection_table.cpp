#include "broker/peers/connection_table.h"

#include <doctest/doctest.h>

#include <memory>

using namespace meshbus;

namespace {

std::unique_ptr<Peer> peer_of(ConnectionId connection, int descriptor) {
  return std::make_unique<Peer>(Identity{}, connection, descriptor, Outbox::Limits{.bytes = 1000, .count = 10});
}

}  // namespace

TEST_CASE("connection_table: a peer that has ended is found by its number, not by its descriptor") {
  ConnectionTable table;
  Peer& a = table.add(peer_of(1, 7));
  Peer& unknown = table.add(peer_of(2, -1));
  CHECK(table.size() == 2);
  CHECK(table.find(1) == &a);
  CHECK(table.find(3) == nullptr);
  CHECK(table.find_descriptor(7) == &a);
  CHECK(table.find_descriptor(-1) == nullptr);
  CHECK(table.end(a));
  CHECK(a.is_ended);
  CHECK_FALSE(table.end(a));
  CHECK(table.find_descriptor(7) == nullptr);
  CHECK(table.find(1) == &a);
  CHECK(table.size() == 1);
  table.erase(a);
  CHECK(table.find(1) == nullptr);
  CHECK(table.size() == 1);
  CHECK(table.find(2) == &unknown);
}

TEST_CASE("connection_table: the end of a connection leaves its descriptor to the next one") {
  ConnectionTable table;
  Peer& old = table.add(peer_of(1, 7));
  Peer& next = table.add(peer_of(2, 7));
  CHECK(table.end(old));
  CHECK(table.find_descriptor(7) == &next);
}
