#include "agent/host/stdio/output_relay.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace meshbus::host {
namespace {

const auto out = wire::Stream::out;
const auto err = wire::Stream::err;

std::string text_of(const wire::OutputT& message) {
  std::string text;
  for (const auto& chunk : message.chunks)
    text += std::to_string(chunk->rank) + (chunk->stream == out ? "o:" : "e:") + std::string(chunk->data.begin(), chunk->data.end()) + "|";
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

TEST_CASE("output_relay: the end of a rank comes after its last output, also when the owner is slow") {
  OutputRelay relay({.ahead = 10, .max_chunk = 8, .message = 8});
  relay.add(0, out, "1234567\n");
  relay.add(0, out, "abc\n");
  relay.end_rank(0);
  CHECK(next(relay) == "0o:1234567\n|");
  CHECK(next(relay) == "nothing");
  relay.taken(8);
  CHECK(next(relay) == "0o:abc\n|0.");
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

TEST_CASE("output_relay: what is under way can be written off") {
  OutputRelay relay({.ahead = 10, .max_chunk = 10, .message = 10});
  relay.add(0, out, "123456789\n");
  relay.add(0, out, "123456789\n");
  CHECK(relay.next().has_value());
  CHECK_FALSE(relay.next().has_value());
  CHECK(relay.forget_under_way() == 10);
  CHECK(relay.next().has_value());
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
