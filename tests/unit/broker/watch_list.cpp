#include "broker/peers/watch_list.h"

#include <doctest/doctest.h>

using namespace meshbus;

namespace {

constexpr WatchList::Watcher kFirst{.proc = 1, .host = 9, .incarnation = 11, .request = 5, .watched = 7};
constexpr WatchList::Watcher kSecond{.proc = 2, .host = 9, .incarnation = 22, .request = 5, .watched = 7};

}  // namespace

TEST_CASE("watch_list: tells each watcher once, in order") {
  WatchList list;
  CHECK(list.add(100, kFirst));
  CHECK(list.add(100, kSecond));
  CHECK(list.add(101, kFirst));
  CHECK(list.take(100, 7) == std::vector{kFirst, kSecond});
  CHECK(list.take(100, 7).empty());
  CHECK(list.size() == 1);
  CHECK(list.take(101, 7) == std::vector{kFirst});
  CHECK(list.size() == 0);
}

TEST_CASE("watch_list: the same watch twice is one, answered to the newest request") {
  WatchList list;
  CHECK(list.add(100, kFirst));
  CHECK(list.add(100, kFirst));
  auto again = kFirst;
  again.request = 6;
  CHECK(list.add(100, again));
  CHECK(list.size() == 1);
  CHECK(list.take(100, 7) == std::vector{again});
  CHECK(list.size() == 0);
}

TEST_CASE("watch_list: forgets a watcher that ended, but not its next incarnation") {
  WatchList list;
  auto next = kFirst;
  next.incarnation = 12;
  CHECK(list.add(100, kFirst));
  CHECK(list.add(100, next));
  CHECK(list.add(101, kFirst));
  CHECK(list.add(101, kSecond));
  list.forget(1, 11);
  CHECK(list.size() == 2);
  CHECK(list.take(100, 7) == std::vector{next});
  CHECK(list.take(101, 7) == std::vector{kSecond});
  list.forget(1, 12);
  CHECK(list.size() == 0);
}

TEST_CASE("watch_list: is bounded") {
  WatchList list(/*limit=*/2);
  CHECK(list.add(100, kFirst));
  CHECK(list.add(101, kFirst));
  CHECK_FALSE(list.add(102, kFirst));
  CHECK(list.add(101, kFirst));
  CHECK(list.take(100, 7).size() == 1);
  CHECK(list.add(102, kFirst));
}

TEST_CASE("watch_list: one watcher does not take everybody's place") {
  WatchList list(/*limit=*/100, /*watcher_limit=*/2);
  CHECK(list.add(100, kFirst));
  CHECK(list.add(101, kFirst));
  CHECK_FALSE(list.add(102, kFirst));
  CHECK(list.add(102, kSecond));
  auto next = kFirst;
  next.watched = 8;
  CHECK(list.add(101, next));
  list.forget(1, 11);
  CHECK(list.add(102, kFirst));
}

TEST_CASE("watch_list: an incarnation's end is no other one's") {
  WatchList list;
  auto of_next = kFirst;
  of_next.watched = 8;
  CHECK(list.add(100, kFirst));
  CHECK(list.add(100, of_next));
  CHECK(list.take(100, 7) == std::vector{kFirst});
  CHECK(list.size() == 1);
  CHECK(list.take(100, 9).empty());
  list.forget(1, 11);
  CHECK(list.size() == 0);
}
