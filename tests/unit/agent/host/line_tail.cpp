#include "agent/host/streams/line_tail.h"

#include <doctest/doctest.h>

#include <random>
#include <utility>

namespace meshbus::host {
namespace {

std::string lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

TEST_CASE("line_tail: the last lines, exact bytes") {
  struct Row {
    std::string in;
    std::string out;
  };
  const std::string zeros("a\0b\xff\n", 5);
  for (const auto& [in, out] : std::vector<Row>{{"", ""},
                                                {"one", "one"},
                                                {"one\n", "one\n"},
                                                {"\n\n", "\n\n"},
                                                {"one\r\ntwo", "one\r\ntwo"},
                                                {zeros, zeros},
                                                {"1\n2\n3\n", "1\n2\n3\n"},
                                                {"1\n2\n3\n4\n", "2\n3\n4\n"},
                                                {"1\n2\n3\n4", "2\n3\n4"},
                                                {"1\n2\n3\n4\n\n", "3\n4\n\n"}}) {
    LineTail tail({.lines = 3});
    tail.append(in);
    CHECK(tail.text() == out);
    LineTail by_bytes({.lines = 3});
    for (const char c : in) by_bytes.append({&c, 1});
    CHECK(by_bytes.text() == out);
  }
}

TEST_CASE("line_tail: 100 of 250, however they are cut into reads") {
  const std::string all = lines(0, 250);
  std::minstd_rand random(1);
  for (int round = 0; round < 20; ++round) {
    LineTail tail({});
    for (std::size_t at = 0; at < all.size();) {
      const auto size = std::min<std::size_t>(all.size() - at, 1 + random() % 400);
      tail.append(Bytes(all).substr(at, size));
      at += size;
    }
    CHECK(tail.text() == lines(150, 250));
  }
}

TEST_CASE("line_tail: a new life has the former one's bytes, and a text of its own") {
  LineTail former({.lines = 3});
  former.append("old 1\nold 2\nhalf");
  LineTail tail({.lines = 3});
  tail.continue_from(std::move(former));
  CHECK(tail.text() == "");
  CHECK(tail.end() == 16);
  CHECK(tail.from(6) == "old 2\nhalf");
  tail.append("new 1\n");
  CHECK(tail.text() == "new 1\n");
  CHECK(tail.from(0) == "old 1\nold 2\nhalfnew 1\n");
  tail.append("new 2\nnew 3\nnew 4\n");
  CHECK(tail.text() == "new 2\nnew 3\nnew 4\n");
  CHECK(tail.offset_of_last(5) == 6);

  LineTail small({.lines = 3, .max_bytes = 8});
  small.continue_from(std::move(tail));
  small.append("x\n");
  CHECK(small.text() == "x\n");
  CHECK(small.end() == 42);
}

TEST_CASE("line_tail: no lines wanted, none kept") {
  LineTail tail({.lines = 0});
  tail.append("one\ntwo");
  CHECK(tail.text().empty());
}

TEST_CASE("line_tail: of a line whose beginning is not kept it is said how much is missing") {
  LineTail tail({.lines = 10, .max_bytes = 8});
  tail.append("12345\n");
  CHECK(tail.text() == "12345\n");
  tail.append("abcdefghijkl");
  CHECK(tail.text() == "[4 bytes cut]efghijkl");
  tail.append("m\n");
  CHECK(tail.text() == "[6 bytes cut]ghijklm\n");
  tail.append("short\n");
  CHECK(tail.text() == "[12 bytes cut]m\nshort\n");
  tail.append("x\n");
  CHECK(tail.text() == "short\nx\n");
}

TEST_CASE("line_tail: exact bytes at their offsets, for random reads, bounded") {
  std::minstd_rand random(3);
  for (const std::size_t most : {1UL, 7UL, 64UL, 1000UL}) {
    LineTail tail({.lines = 5, .max_bytes = most});
    std::string all;
    for (int i = 0; i < 500; ++i) {
      std::string bytes(random() % (i % 50 == 0 ? 3 * most : most / 2 + 2), 'a');
      for (char& c : bytes) c = random() % 9 == 0 ? '\n' : static_cast<char>(random());
      tail.append(bytes);
      all += bytes;
      REQUIRE(tail.end() == all.size());
      REQUIRE(tail.end() - tail.begin() <= most + most / 4);
      REQUIRE(tail.end() - tail.begin() >= std::min(all.size(), most));
      const auto offset = all.size() - std::min<std::size_t>(all.size(), random() % (2 * most));
      REQUIRE(tail.from(offset) == Bytes(all).substr(std::max<std::size_t>(offset, tail.begin())));
      // The text is the end of everything, with a mark for the beginning of its first line.
      std::string text = tail.text();
      if (text.starts_with("[")) {
        const auto mark = text.find(" bytes cut]");
        const auto kept = text.substr(std::min(mark, text.size() - 11) + 11);
        if (mark != std::string::npos && all.ends_with(kept)) {
          const auto line = all.rfind('\n', all.size() - kept.size() - 1);
          CHECK(std::stoull(text.substr(1)) ==
                all.size() - kept.size() - (line == std::string::npos ? 0 : line + 1));
          text = kept;
        }
      }
      REQUIRE(all.ends_with(text));
    }
  }
}

TEST_CASE("line_tail: where the last lines begin, and how many are not there") {
  LineTail tail({});
  tail.append("one\ntwo\nthr");
  std::uint64_t missing = 9;
  CHECK(tail.offset_of_last(0, &missing) == 11);
  CHECK(missing == 0);
  CHECK(tail.offset_of_last(1, &missing) == 8);
  CHECK(tail.offset_of_last(2, &missing) == 4);
  CHECK(tail.offset_of_last(3, &missing) == 0);
  CHECK(missing == 0);
  CHECK(tail.offset_of_last(5, &missing) == 0);
  CHECK(missing == 2);
  tail.append("ee\n");
  CHECK(tail.offset_of_last(1) == 8);
}

TEST_CASE("line_tail: bounded in bytes, however long the lines are, and smaller on demand") {
  LineTail tail({});
  const std::string line(60 * 1024, 'x');
  for (int i = 0; i < 50; ++i) {
    tail.append(line);
    tail.append("\n");
    CHECK(tail.end() - tail.begin() <= 80 * 1024);
  }
  tail.append(std::string(10 * 1024 * 1024, 'y'));
  CHECK(tail.end() - tail.begin() == 64 * 1024);
  CHECK(tail.text() == "[" + std::to_string(10 * 1024 * 1024 - 64 * 1024) + " bytes cut]" +
                           std::string(64 * 1024, 'y'));
  tail.shrink(1000);
  CHECK(tail.end() - tail.begin() == 1000);
  tail.append("z");
  CHECK(tail.text().ends_with("yz"));
  LineTail later({});
  later.start_at(77);
  later.append("abc\n");
  CHECK(later.begin() == 77);
  CHECK(later.text() == "abc\n");
}

}  // namespace
}  // namespace meshbus::host
