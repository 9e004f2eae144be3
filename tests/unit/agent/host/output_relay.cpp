#include "agent/host/streams/output_relay.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>

#include "wire/logs_generated.h"

namespace meshbus::host {
namespace {

using enum wire::Stream;

std::string text_of(const wire::OutputT& message) {
  std::string text;
  for (const auto& chunk : message.chunks)
    text += std::to_string(chunk->rank) + (chunk->stream == out ? "o:" : "e:") +
            std::string(chunk->data.begin(), chunk->data.end()) + "|";
  for (const auto rank : message.ended) text += std::to_string(rank) + ".";
  return text;
}

std::string next(OutputRelay& relay) {
  const auto message = relay.next();
  return message ? text_of(*message) : "nothing";
}

TEST_CASE("output_relay: whole lines, in the order in which they came") {
  OutputRelay relay;
  CHECK(next(relay) == "nothing");
  relay.add(0, out, "one\ntw");
  relay.add(1, err, "x");
  CHECK(next(relay) == "0o:one\n|");
  CHECK(next(relay) == "nothing");
  relay.add(0, out, "o\nthree\nfo");
  relay.add(1, err, "y\n");
  relay.add(0, err, "e\n");
  CHECK(next(relay) == "0o:two\nthree\n|1e:xy\n|0e:e\n|");
  relay.end_stream(0, out);
  CHECK(next(relay) == "0o:fo|");
  relay.end_rank(0);
  CHECK(next(relay) == "0.");
  relay.add(1, out, "last");
  relay.end_rank(1);
  CHECK(next(relay) == "1o:last|1.");
}

TEST_CASE(
    "output_relay: the end of a rank comes after its last output, also when the owner is slow") {
  OutputRelay relay({.ahead = 10, .max_chunk = 8, .message = 8});
  relay.add(0, out, "1234567\n");
  relay.add(0, out, "abc\n");
  relay.end_rank(0);
  CHECK(next(relay) == "0o:1234567\n|");
  CHECK(next(relay) == "nothing");
  relay.taken(8);
  CHECK(next(relay) == "0o:abc\n|0.");
}

TEST_CASE(
    "output_relay: knows whether something of a rank is left, and goes on behind it with its next "
    "life") {
  OutputRelay relay;
  relay.add(0, out, "one\n");
  CHECK(relay.has(0));
  CHECK_FALSE(relay.has(1));
  relay.end_rank(0);
  CHECK(next(relay) == "0o:one\n|0.");
  relay.taken(0, out, 4);
  CHECK(relay.has(0));  // its end is not known
  relay.end_known(0);
  CHECK_FALSE(relay.has(0));
  relay.end_rank(1);
  CHECK(relay.has(1));
  relay.restore(0, out, 4);
  relay.add(0, out, "two\n");
  const auto message = relay.next();
  REQUIRE(message.has_value());
  CHECK(message->chunks.at(0)->offset == 4);
}

TEST_CASE("output_relay: long lines and last lines leave as they are") {
  OutputRelay relay({.ahead = 1000, .max_chunk = 4, .message = 1000});
  relay.add(0, out, "123456789");
  CHECK(next(relay) == "0o:1234|0o:5678|0o:9|");  // a line over the limit is not held back
  relay.add(0, out, "ab\ncd\nef\n");
  CHECK(next(relay) == "0o:ab\n|0o:cd\n|0o:ef\n|");
}

TEST_CASE("output_relay: at most so much under way, then the pipes wait") {
  OutputRelay relay({.ahead = 100, .max_chunk = 40, .message = 1000});
  const std::string line = std::string(29, 'x') + "\n";
  for (int i = 0; i < 4; ++i) relay.add(0, out, line);
  CHECK_FALSE(relay.wants_more());
  REQUIRE(relay.next().has_value());
  CHECK(relay.under_way() == 90);
  CHECK_FALSE(relay.next().has_value());
  CHECK_FALSE(relay.wants_more());
  relay.taken(30);
  REQUIRE(relay.next().has_value());
  CHECK(relay.under_way() == 90);
  CHECK(relay.wants_more());
  relay.taken(1'000'000);  // more than there is counts as all
  CHECK(relay.under_way() == 0);
  CHECK(relay.wants_more());
}

TEST_CASE("output_relay: what is not taken is sent again, by offsets, and the end too") {
  OutputRelay relay({.ahead = 100, .max_chunk = 10, .message = 10});
  relay.add(0, out, "12345678\n");
  relay.add(0, out, "abcdefgh\n");
  relay.add(0, out, "rest");
  const auto first = relay.next();
  REQUIRE(first.has_value());
  CHECK(first->chunks.at(0)->offset == 0);
  CHECK(relay.next()->chunks.at(0)->offset == 9);
  CHECK_FALSE(relay.next().has_value());
  CHECK(relay.under_way() == 18);
  relay.taken(0, out, 9);
  CHECK(relay.taken_of(0, out) == 9);
  CHECK(relay.under_way() == 9);
  CHECK(relay.resend() == 9);
  CHECK(relay.under_way() == 0);
  relay.end_rank(0);
  CHECK(next(relay) == "0o:abcdefgh\n|");
  const auto end = relay.next();
  REQUIRE(end.has_value());
  CHECK(text_of(*end) == "0o:rest|0.");
  CHECK(end->chunks.at(0)->offset == 18);
  CHECK(end->ends.at(0).out() == 22);
  CHECK(end->ends.at(0).err() == 0);
  relay.taken(0, out, 18);
  relay.resend();
  CHECK(next(relay) == "0o:rest|0.");
  relay.taken(0, out, 22);
  relay.resend();
  CHECK(next(relay) == "0.");
  relay.end_known(0);
  relay.resend();
  CHECK(next(relay) == "nothing");
}

TEST_CASE("output_relay: what the owner cannot have taken changes nothing") {
  OutputRelay relay({.ahead = 100, .max_chunk = 10, .message = 100});
  relay.add(3, err, "1234\n");
  relay.taken(3, err, 6);
  relay.taken(4, out, 1);
  relay.end_known(3);
  CHECK(next(relay) == "3e:1234\n|");
  relay.taken(3, err, 99);
  CHECK(relay.under_way() == 5);
  relay.taken(3, err, 4);
  CHECK(relay.under_way() == 5);
  relay.taken(3, err, 5);
  CHECK(relay.under_way() == 0);
}

TEST_CASE("output_relay: tells once how far each stream is taken, however its owner says it") {
  OutputRelay relay({.ahead = 100, .max_chunk = 10, .message = 100});
  relay.add(1, out, "12345678\n");
  relay.add(2, err, "ab\n");
  relay.restore(3, out, 50);
  relay.add(3, out, "cd\n");
  REQUIRE(relay.next());
  const auto progress = [&] {
    std::string text;
    for (const auto& one : relay.take_progress()) {
      text += std::to_string(one.rank) + (one.stream == out ? "o" : "e") +
              std::to_string(one.taken) + " ";
    }
    return text;
  };
  CHECK(progress() == "");
  relay.taken(1, out, 4);
  CHECK(progress() == "1o4 ");
  relay.taken(1, out, 4);
  relay.taken(1, out, 3);
  relay.taken(1, out, 99);
  CHECK(progress() == "");
  relay.taken(9 + 3);  // an owner that counts
  CHECK(progress() == "1o9 2e3 ");
  relay.taken(100);
  CHECK(progress() == "3o53 ");
  CHECK(relay.under_way() == 0);
}

TEST_CASE("output_relay: a stream goes on where another agent left it") {
  OutputRelay relay;
  relay.restore(2, out, 1000);
  relay.add(2, out, "more\n");
  relay.end_rank(2);
  const auto message = relay.next();
  REQUIRE(message.has_value());
  CHECK(message->chunks.at(0)->offset == 1000);
  CHECK(message->ends.at(0).out() == 1005);
}

TEST_CASE("output_relay: exact bytes to an owner that gets some messages, twice, or late") {
  std::minstd_rand random(11);
  for (int round = 0; round < 50; ++round) {
    OutputRelay relay({.ahead = 300, .max_chunk = 50, .message = 120});
    std::map<std::pair<std::uint64_t, wire::Stream>, std::string> written, seen;
    std::set<std::uint64_t> ended;
    const auto take = [&] {
      while (const auto message = relay.next()) {
        CHECK(relay.under_way() <= 300);
        const int fate = static_cast<int>(random() % 4);
        if (fate == 0) continue;  // lost
        for (const auto& chunk : message->chunks) {
          std::string& bytes = seen[{chunk->rank, chunk->stream}];
          if (chunk->offset > bytes.size()) continue;
          const std::string data(chunk->data.begin(), chunk->data.end());
          bytes += data.substr(std::min<std::size_t>(data.size(), bytes.size() - chunk->offset));
          if (fate != 1)
            relay.taken(chunk->rank, chunk->stream, bytes.size());  // else the answer is lost
        }
        for (const auto& end : message->ends) {
          if (seen[{end.rank(), out}].size() != end.out() ||
              seen[{end.rank(), err}].size() != end.err())
            continue;
          ended.insert(end.rank());
          relay.end_known(end.rank());
        }
      }
      if (random() % 3 == 0) relay.resend();
    };
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t rank = random() % 3;
      const auto stream = random() % 2 == 0 ? out : err;
      std::string bytes(random() % 90, 'a');
      for (char& c : bytes) c = random() % 12 == 0 ? '\n' : static_cast<char>('a' + random() % 26);
      written[{rank, stream}] += bytes;
      relay.add(rank, stream, bytes);
      take();
    }
    for (std::uint64_t rank = 0; rank < 3; ++rank) relay.end_rank(rank);
    for (int i = 0; i < 10'000 && ended.size() < 3; ++i) {
      relay.resend();
      take();
    }
    CHECK(ended.size() == 3);
    CHECK(seen == written);
  }
}

TEST_CASE("output_relay: exact bytes per stream, for random reads and a random owner") {
  std::minstd_rand random(7);
  for (int round = 0; round < 50; ++round) {
    OutputRelay relay({.ahead = 300, .max_chunk = 50, .message = 120});
    std::map<std::pair<std::uint64_t, wire::Stream>, std::string> written;
    std::map<std::pair<std::uint64_t, wire::Stream>, std::string> seen;
    std::size_t owed = 0;
    std::size_t ended = 0;
    const auto take = [&] {
      while (const auto message = relay.next()) {
        CHECK(relay.under_way() <= 300);
        for (const auto& chunk : message->chunks) {
          CHECK(chunk->data.size() <= 50);
          seen[{chunk->rank, chunk->stream}].append(chunk->data.begin(), chunk->data.end());
          owed += chunk->data.size();
        }
        ended += message->ended.size();
      }
    };
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t rank = random() % 3;
      const auto stream = random() % 2 == 0 ? out : err;
      std::string bytes(random() % 90, 'a');
      for (char& c : bytes) c = random() % 12 == 0 ? '\n' : static_cast<char>('a' + random() % 26);
      written[{rank, stream}] += bytes;
      relay.add(rank, stream, bytes);
      if (random() % 2 == 0) take();
      if (random() % 3 == 0) {
        relay.taken(owed / 2);
        owed -= owed / 2;
      }
    }
    for (std::uint64_t rank = 0; rank < 3; ++rank) relay.end_rank(rank);
    for (int i = 0; i < 10'000 && ended < 3; ++i) {
      take();
      relay.taken(owed);
      owed = 0;
    }
    CHECK(ended == 3);
    CHECK(seen == written);
  }
}

}  // namespace
}  // namespace meshbus::host
