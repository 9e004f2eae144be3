#include "agent/host/stdio/line_tail.h"

#include <doctest/doctest.h>

#include <random>

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

TEST_CASE("line_tail: no lines wanted, none kept") {
  LineTail tail({.lines = 0});
  tail.append("one\ntwo");
  CHECK(tail.text().empty());
}

TEST_CASE("line_tail: a long line is cut and marked, the next one is whole") {
  LineTail tail({.lines = 10, .max_line = 8});
  tail.append("12345678\n");
  tail.append("123456789\nshort\n");
  tail.append("1234567890");
  tail.append("ab");
  CHECK(tail.text() == "12345678\n12345678[1 bytes cut]\nshort\n12345678[4 bytes cut]");
  tail.append("\n");
  CHECK(tail.text() == "12345678\n12345678[1 bytes cut]\nshort\n12345678[4 bytes cut]\n");
}

TEST_CASE("line_tail: bounded in bytes, however long the lines are") {
  LineTail tail({});
  const std::string line(60 * 1024, 'x');
  for (int i = 0; i < 50; ++i) {
    tail.append(line);
    tail.append("\n");
    CHECK(tail.text().size() <= 128 * 1024 + 64);
  }
  CHECK(tail.text().size() == 2 * (line.size() + 1));
  tail.append(std::string(10 * 1024 * 1024, 'y'));
  CHECK(tail.text().size() <= 192 * 1024 + 64);
}

}  // namespace
}  // namespace meshbus::host
