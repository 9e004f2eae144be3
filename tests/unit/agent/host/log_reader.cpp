#include "agent/host/streams/log_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

using enum wire::Stream;

/// Streams of which only the last `kept` bytes are there.
struct Source : LogSource {
  std::map<StreamId, std::string> all;
  std::map<StreamId, bool> ended;
  std::size_t kept = 1'000'000;

  Piece read(const StreamId& stream, std::uint64_t offset, std::size_t most) override {
    const std::string& bytes = all[stream];
    const auto begin = std::max<std::uint64_t>(offset, bytes.size() - std::min(bytes.size(), kept));
    return {begin, bytes.substr(begin, most)};
  }
  std::uint64_t end(const StreamId& stream) override { return all[stream].size(); }
  bool is_ended(const StreamId& stream) override { return ended[stream]; }
};

std::string text_of(const std::optional<wire::LogT>& log) {
  if (!log) return "nothing";
  std::string text = std::to_string(log->sequence) + ":";
  for (const auto& chunk : log->chunks)
    text += " " + std::to_string(chunk->rank) + "@" + std::to_string(chunk->offset) + "=" +
            std::string(chunk->data.begin(), chunk->data.end());
  for (const auto& end : log->ends)
    text += " " + std::to_string(end.rank()) + "." + std::to_string(end.offset());
  return text + (log->done ? " done" : "");
}

TEST_CASE("log_reader: what is there, then what comes, then the end") {
  Source source;
  source.all[{0, out}] = "old\n";
  LogReader reader({.stream = 1, .follow = true});
  reader.add({0, out}, 0, source);
  CHECK(text_of(reader.next(source, true)) == "1: 0@0=old\n");
  CHECK(text_of(reader.next(source, true)) == "nothing");
  source.all[{0, out}] += "new";
  CHECK(text_of(reader.next(source, true)) == "nothing");  // nobody has said so
  reader.on_output({0, out});
  CHECK(text_of(reader.next(source, true)) == "2: 0@4=new");
  source.ended[{0, out}] = true;
  reader.on_output({0, out});
  CHECK(text_of(reader.next(source, true)) == "3: 0.7 done");
  CHECK_FALSE(reader.is_done());
  reader.taken(3);
  CHECK(reader.is_done());
  CHECK(text_of(reader.next(source, true)) == "nothing");
}

TEST_CASE(
    "log_reader: what another life of a rank writes comes after the end of the one before, for who "
    "follows") {
  for (const bool follow : {true, false}) {
    Source source;
    source.all[{0, out}] = "one\n";
    source.ended[{0, out}] = true;
    LogReader reader({.stream = 1, .follow = follow});
    reader.add({0, out}, 0, source);
    CHECK(text_of(reader.next(source, false)) == "1: 0@0=one\n 0.4");
    reader.on_output({0, out});
    CHECK(text_of(reader.next(source, false)) == "nothing");
    source.all[{0, out}] += "two\n";
    source.ended[{0, out}] = false;
    reader.on_output({0, out});
    CHECK(text_of(reader.next(source, false)) == (follow ? "2: 0@4=two\n" : "nothing"));
    source.ended[{0, out}] = true;
    reader.on_output({0, out});
    CHECK(text_of(reader.next(source, true)) == (follow ? "3: 0.8 done" : "2: done"));
  }
}

TEST_CASE("log_reader: without follow, up to where the streams were at the start") {
  Source source;
  source.all[{0, out}] = "abc";
  source.all[{1, out}] = "";
  LogReader reader({.stream = 1, .follow = false});
  reader.add({0, out}, 1, source);
  reader.add({1, out}, 0, source);
  source.all[{0, out}] += "later";
  source.all[{1, out}] += "later";
  reader.on_output({1, out});
  CHECK(text_of(reader.next(source, true)) == "1: 0@1=bc 0.3 1.0 done");
}

TEST_CASE("log_reader: what is gone when its turn comes shows in the offsets") {
  Source source;
  source.kept = 4;
  source.all[{0, out}] = "123456789";
  LogReader reader({.stream = 1, .follow = true});
  reader.add({0, out}, 2, source);
  CHECK(text_of(reader.next(source, true)) == "1: 0@5=6789");
  // At the end of a stream, where no chunk follows, its end says it.
  source.all[{0, out}] += "abcdef";
  source.kept = 0;
  source.ended[{0, out}] = true;
  reader.on_output({0, out});
  CHECK(text_of(reader.next(source, true)) == "2: 0.15 done");
}

TEST_CASE("log_reader: no more than its window, all streams in turn") {
  Source source;
  for (std::uint64_t rank = 0; rank < 3; ++rank)
    source.all[{rank, out}] = std::string(100'000, static_cast<char>('a' + rank));
  LogReader reader({.stream = 1, .follow = true, .window = 10'000});
  for (std::uint64_t rank = 0; rank < 3; ++rank) reader.add({rank, out}, 0, source);
  std::map<std::uint64_t, std::size_t> got;
  for (int i = 0; i < 30; ++i) {
    while (const auto log = reader.next(source, true)) {
      for (const auto& chunk : log->chunks) got[chunk->rank] += chunk->data.size();
      CHECK(reader.under_way() <= 10'000);
      CHECK(log->sequence <= 1 + 30 * 4);
    }
    CHECK(reader.under_way() > 9'000);
    reader.taken(1'000'000);  // never sent: nothing
    CHECK(reader.under_way() > 9'000);
    reader.rewind();
    const auto again = reader.next(source, true);
    REQUIRE(again.has_value());
    reader.taken(again->sequence);
  }
  CHECK(got.size() == 3);
}

TEST_CASE(
    "log_reader: exact bytes through losses and repetitions, and every missing byte is known") {
  std::minstd_rand random(5);
  for (int round = 0; round < 100; ++round) {
    Source source;
    source.kept = round % 2 == 0 ? 1'000'000 : 200;
    LogReader reader({.stream = 1, .follow = true, .window = 1000});
    for (std::uint64_t rank = 0; rank < 3; ++rank) reader.add({rank, out}, 0, source);
    std::map<std::uint64_t, std::string> seen;
    std::map<std::uint64_t, std::uint64_t> position, missed;
    std::uint64_t expected = 1;
    bool done = false;
    const auto pump = [&] {
      while (const auto log = reader.next(source, true)) {
        if (random() % 5 == 0) continue;  // lost
        if (log->sequence != expected && (log->sequence != log->since || log->since < expected))
          continue;
        expected = log->sequence + 1;
        for (const auto& chunk : log->chunks) {
          auto& at = position[chunk->rank];
          std::string data(chunk->data.begin(), chunk->data.end());
          auto offset = chunk->offset;
          const auto known = std::min<std::uint64_t>(data.size(), at - std::min(at, offset));
          data.erase(0, known);
          offset += known;
          if (data.empty()) continue;
          missed[chunk->rank] += offset - at;
          REQUIRE(source.all[{chunk->rank, out}].substr(offset, data.size()) == data);
          seen[chunk->rank] += data;
          at = offset + data.size();
        }
        for (const auto& end : log->ends) {
          missed[end.rank()] += end.offset() - position[end.rank()];
          position[end.rank()] = end.offset();
        }
        done = done || log->done;
        if (random() % 3 != 0) reader.taken(log->sequence);
      }
      if (random() % 4 == 0) reader.rewind();
    };
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t rank = random() % 3;
      source.all[{rank, out}] +=
          std::string(random() % 150, static_cast<char>('a' + random() % 26));
      reader.on_output({rank, out});
      if (random() % 2 == 0) pump();
    }
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      source.ended[{rank, out}] = true;
      reader.on_output({rank, out});
    }
    for (int i = 0; i < 10'000 && !reader.is_done(); ++i) {
      pump();
      if (done) reader.taken(expected - 1);
      reader.rewind();
    }
    CHECK(reader.is_done());
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      CHECK(seen[rank].size() + missed[rank] == source.all[{rank, out}].size());
      if (round % 2 == 0) CHECK(seen[rank] == source.all[{rank, out}]);
    }
  }
}

}  // namespace
}  // namespace meshbus::host
