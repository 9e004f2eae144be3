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
  relay.taken(8, 0);
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
  relay.taken(30, 0);
  REQUIRE(relay.next().has_value());
  CHECK(relay.under_way() == 90);
  CHECK(relay.wants_more());
  relay.taken(1'000'000, 0);  // more than there is counts as all
  CHECK(relay.under_way() == 0);
  CHECK(relay.wants_more());
}

TEST_CASE("output_relay: what is under way can be sent again, each byte with its position") {
  OutputRelay relay({.ahead = 20, .max_chunk = 10, .message = 10});
  relay.start_at(0, out, 100);
  relay.add(0, out, "123456789\n");
  relay.add(0, out, "abcdefghi\n");
  relay.add(0, out, "end");
  relay.end_rank(0);
  auto first = relay.next();
  REQUIRE(first);
  CHECK(first->session != 0);
  CHECK(first->chunks.at(0)->position == 100);
  REQUIRE(relay.next());
  CHECK_FALSE(relay.next());
  auto taken = relay.taken(10, first->session);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].rank == 0);
  CHECK(taken[0].end == 110);
  CHECK(relay.taken(7, first->session).empty());  // a part of a chunk
  CHECK(relay.send_again() == 3);
  const auto again = relay.next();
  REQUIRE(again);
  CHECK(again->session != first->session);
  CHECK(text_of(*again) == "0o:abcdefghi\n|");
  CHECK(again->chunks.at(0)->position == 110);
  CHECK(relay.taken(10, first->session).empty());  // of what came before
  CHECK(relay.under_way() == 10);
  const auto last = relay.next();
  REQUIRE(last);
  CHECK(text_of(*last) == "0o:end|0.");
  CHECK(last->chunks.at(0)->position == 120);
  taken = relay.taken(13, again->session);
  REQUIRE(taken.size() == 2);
  CHECK(taken[1].end == 123);
  CHECK(relay.send_again() == 0);
  CHECK(next(relay) == "nothing");
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
        relay.taken(owed / 2, 0);
        owed -= owed / 2;
      }
    }
    for (std::uint64_t rank = 0; rank < 3; ++rank) relay.end_rank(rank);
    for (int i = 0; i < 10'000 && ended < 3; ++i) {
      take();
      relay.taken(owed, 0);
      owed = 0;
    }
    CHECK(ended == 3);
    CHECK(seen == written);
  }
}

}  // namespace
}  // namespace meshbus::host
