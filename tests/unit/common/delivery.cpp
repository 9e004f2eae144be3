#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "common/bus/ack_batch.h"
#include "common/bus/sent_messages.h"
#include "common/wire/frame.h"
#include "wire/frame_generated.h"

using namespace meshbus;

namespace {

using Numbers = std::vector<std::uint64_t>;

wire::Envelope numbered(std::uint64_t sequence, wire::Kind kind = wire::Kind::message) {
  wire::Envelope envelope;
  envelope.mutate_sequence(sequence);
  envelope.mutate_kind(kind);
  envelope.mutate_lane(wire::Lane::data);
  envelope.mutate_source_proc(1);
  return envelope;
}

constexpr SentMessages::Receiver kReceiver{7, 8};
constexpr AckBatch::Source kSource{1, 0, 0};

/// A sender and what it was told.
struct Sender {
  void add(std::uint64_t first, std::uint64_t last) {
    for (auto i = first; i <= last; ++i) fates.add(kReceiver, numbered(i));
  }
  void on_taken(const std::vector<wire::TakenRun>& runs) { fates.on_taken(kReceiver, runs, tell); }
  void settle(std::uint64_t end) { fates.settle(kReceiver, end, tell); }
  Numbers take_told() { return std::exchange(told, {}); }

  SentMessages fates{100'000};
  Numbers told;
  SentMessages::Tell tell = [this](const wire::Envelope& envelope) {
    CHECK(envelope.destination_proc() == kReceiver.proc);
    CHECK(envelope.kind() == wire::Kind::message);
    told.push_back(envelope.sequence());
  };
};

}  // namespace

TEST_CASE("delivery: which messages have one") {
  CHECK(is_tracked(numbered(1)));
  CHECK_FALSE(is_tracked(numbered(1, wire::Kind::reply)));
  CHECK_FALSE(is_tracked(numbered(1, wire::Kind::error)));
  CHECK_FALSE(is_tracked(numbered(1, wire::Kind::call)));
  CHECK_FALSE(is_tracked(numbered(1, wire::Kind::control)));
  auto unwanted = numbered(1);
  unwanted.mutate_flags(kFlagNoReturn);
  CHECK_FALSE(is_tracked(unwanted));
}

TEST_CASE("delivery: what is taken is forgotten, cumulatively, and nobody is told") {
  Sender sender;
  sender.add(1, 10);
  CHECK(sender.fates.count() == 10);
  sender.on_taken({{1, 4, 4}});
  CHECK(sender.fates.count() == 6);
  sender.on_taken({{1, 4, 4}});
  sender.on_taken({{1, 9, 9}});
  CHECK(sender.fates.count() == 1);
  sender.on_taken({{1, 10, 10}});
  CHECK(sender.fates.empty());
  CHECK(sender.told.empty());
  CHECK(sender.fates.totals().taken == 10);
}

TEST_CASE("delivery: a run that begins later tells of what was lost before it") {
  Sender sender;
  sender.add(1, 10);
  // The receiver's broker died with 6 and 7, and the report of the first run with it.
  sender.on_taken({{1, 5, 5}, {8, 9, 2}});
  CHECK(sender.take_told() == Numbers{6, 7});
  CHECK(sender.fates.count() == 1);
  // Another life of the receiver.
  sender.add(11, 12);
  sender.on_taken({{12, 12, 1}});
  CHECK(sender.take_told() == Numbers{10, 11});
  CHECK(sender.fates.empty());
  // A late report of an earlier run.
  sender.on_taken({{1, 5, 5}, {8, 9, 2}});
  CHECK(sender.told.empty());
}

TEST_CASE("delivery: when fewer were taken than sent, all that were not heard of before are told") {
  Sender sender;
  sender.add(1, 10);
  sender.on_taken({{1, 3, 3}});
  sender.on_taken({{1, 8, 7}});
  CHECK(sender.take_told() == Numbers{4, 5, 6, 7, 8});
  sender.on_taken({{1, 10, 9}});
  CHECK(sender.told.empty());
  CHECK(sender.fates.empty());
}

TEST_CASE("delivery: what came back is not told again, whoever says so first") {
  Sender sender;
  sender.add(1, 5);
  CHECK(sender.fates.remove(kReceiver, numbered(3)));
  CHECK_FALSE(sender.fates.remove(kReceiver, numbered(3)));
  sender.on_taken({{1, 4, 3}});
  CHECK(sender.fates.count() == 1);
  CHECK_FALSE(sender.fates.remove(kReceiver, numbered(2)));
  sender.settle(6);
  CHECK(sender.take_told() == Numbers{5});
  CHECK_FALSE(sender.fates.remove(kReceiver, numbered(5)));
  const auto& totals = sender.fates.totals();
  CHECK(totals.sent == totals.taken + totals.returned + totals.unknown + sender.fates.count());
}

TEST_CASE("delivery: a silent receiver is asked once at a time, about what was sent by then") {
  Sender sender;
  sender.add(1, 3);
  CHECK(sender.fates.silent().empty());
  REQUIRE(sender.fates.silent().size() == 1);
  sender.fates.on_asked(kReceiver, 4);
  sender.fates.lower_asked(3);
  CHECK(sender.fates.silent().empty());
  sender.add(4, 4);
  CHECK(sender.fates.take_asked(kReceiver) == 3);
  CHECK(sender.fates.take_asked(kReceiver) == 0);
  sender.on_taken({{1, 1, 1}});
  sender.settle(3);
  CHECK(sender.take_told() == Numbers{2});
  CHECK(sender.fates.count() == 2);
  CHECK(sender.fates.owing().size() == 1);
  // It has spoken.
  CHECK(sender.fates.silent().empty());
  CHECK(sender.fates.silent().size() == 1);
}

TEST_CASE("delivery: a receiver of an older release, and a limit") {
  Sender sender;
  sender.add(1, 3);
  sender.fates.ignore(kReceiver);
  CHECK(sender.fates.empty());
  sender.add(4, 5);
  CHECK(sender.fates.empty());
  CHECK(sender.fates.remove(kReceiver, numbered(5)));
  CHECK(sender.fates.totals().ignored == 5);
  CHECK(sender.told.empty());
  SentMessages small(2);
  small.add(kReceiver, numbered(1));
  CHECK(small.has_room());
  small.add(kReceiver, numbered(2));
  CHECK_FALSE(small.has_room());
}

TEST_CASE("delivery: nonsense from a receiver settles no more than was sent") {
  Sender sender;
  sender.add(5, 9);
  sender.on_taken({{0, 0, 0}, {9, 3, 1}, {UINT64_MAX, UINT64_MAX, UINT64_MAX}});
  CHECK(sender.fates.empty());
  CHECK(sender.told.size() <= 5);
  sender.on_taken({{1, UINT64_MAX, 0}});
  SentMessages none(10);
  none.on_taken(kReceiver, {{1, 2, 3}}, sender.tell);
  none.settle(kReceiver, 9, sender.tell);
  CHECK(none.empty());
}

TEST_CASE("delivery: a receiver says what it took once, and begins a new run with a new session") {
  AckBatch counts;
  for (std::uint64_t i : {3U, 5U, 6U}) CHECK_FALSE(counts.take(numbered(i)));
  auto reports = counts.reports();
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].to == kSource);
  REQUIRE(reports[0].runs.size() == 1);
  CHECK(reports[0].runs[0].first() == 3);
  CHECK(reports[0].runs[0].last() == 6);
  CHECK(reports[0].runs[0].count() == 3);
  CHECK(counts.reports().empty());
  counts.restart();
  CHECK(counts.reports().size() == 1);
  counts.take(numbered(9));
  const auto report = counts.report(kSource);
  REQUIRE(report.runs.size() == 2);
  CHECK(report.runs[0].last() == 6);
  CHECK(report.runs[1].first() == 9);
  CHECK(counts.report({2, 2, 2}).runs.empty());
  // Without waiting after many.
  bool is_time = false;
  for (std::uint64_t i = 10; i < 10'000; ++i) is_time = counts.take(numbered(i)) || is_time;
  CHECK(is_time);
}

TEST_CASE("delivery: whatever dies, each message is taken or told, and told once") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
    };
    Sender sender;
    std::optional<AckBatch> receiver(std::in_place);
    Numbers on_way, taken, returned;
    std::deque<std::vector<wire::TakenRun>> reports;
    std::uint64_t next = 1;
    const auto report = [&] {
      for (auto& one : receiver->reports()) reports.push_back(one.runs);
    };
    for (int step = 0; step < 500; ++step) {
      switch (pick(12)) {
        default:
          sender.fates.add(kReceiver, numbered(next));
          on_way.push_back(next++);
          next += pick(3);
          break;
        case 0:
        case 1:
        case 2:
          if (on_way.empty()) break;
          receiver->take(numbered(on_way.front()));
          taken.push_back(on_way.front());
          on_way.erase(on_way.begin());
          break;
        case 3: report(); break;
        case 4:
          if (reports.empty()) break;
          sender.on_taken(reports.front());
          reports.pop_front();
          break;
        case 5:  // One comes back.
          if (on_way.empty()) break;
          returned.push_back(on_way.back());
          CHECK(sender.fates.remove(kReceiver, numbered(on_way.back())));
          on_way.pop_back();
          break;
        case 6:  // The receiver's broker dies with what it had.
          if (pick(4) != 0) break;
          on_way.erase(on_way.begin(),
                       on_way.begin() + static_cast<std::ptrdiff_t>(pick(on_way.size() + 1)));
          reports.clear();
          receiver->restart();
          break;
        case 7:  // The receiver dies, and another life of it comes.
          if (pick(6) != 0) break;
          on_way.erase(on_way.begin(),
                       on_way.begin() + static_cast<std::ptrdiff_t>(pick(on_way.size() + 1)));
          receiver.emplace();
          break;
      }
    }
    // All that is under way arrives, and the sender asks.
    for (const auto number : on_way) {
      receiver->take(numbered(number));
      taken.push_back(number);
    }
    sender.on_taken(receiver->report(kSource).runs);
    sender.settle(next);
    CHECK(sender.fates.empty());
    CHECK(std::is_sorted(sender.told.begin(), sender.told.end()));
    CHECK(std::adjacent_find(sender.told.begin(), sender.told.end()) == sender.told.end());
    for (const auto number : returned)
      CHECK(std::find(sender.told.begin(), sender.told.end(), number) == sender.told.end());
    Numbers known = taken;
    known.insert(known.end(), returned.begin(), returned.end());
    known.insert(known.end(), sender.told.begin(), sender.told.end());
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const auto& totals = sender.fates.totals();
    CHECK(known.size() == totals.sent);
    CHECK(totals.sent == totals.taken + totals.returned + totals.unknown);
  }
}
