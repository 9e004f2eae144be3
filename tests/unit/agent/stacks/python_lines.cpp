// Location tables of code objects, as CPython 3.11 to 3.13 write them.
#include "agent/stacks/python_lines.h"

#include <doctest/doctest.h>

#include <vector>

using meshbus::stacks::find_python_line;

namespace {

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> all;
  for (const auto value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

}  // namespace

TEST_CASE("python_lines: each kind of entry moves the line as it says") {
  // One code unit without columns (+1), two on the same line, one two lines on, a long one (-2),
  // one without a line.
  const auto table = bytes({0x80 | 13 << 3 | 0, 0x02,              //
                            0x80 | 1 << 3 | 1, 0x11,               //
                            0x80 | 12 << 3 | 0, 0x01, 0x02,        //
                            0x80 | 14 << 3 | 0, 0x05, 0x00, 1, 1,  //
                            0x80 | 15 << 3 | 0});
  CHECK(find_python_line(table, 10, 0) == 11);
  CHECK(find_python_line(table, 10, 2) == 11);
  CHECK(find_python_line(table, 10, 4) == 11);
  CHECK(find_python_line(table, 10, 6) == 13);
  CHECK(find_python_line(table, 10, 8) == 11);
  CHECK(find_python_line(table, 10, 10) == 0);
  CHECK(find_python_line(table, 10, 12) == 0);
}

TEST_CASE("python_lines: numbers above 31 take more bytes") {
  const auto table = bytes({0x80 | 13 << 3 | 0, 0x40 | (200U & 63U), 200 >> 6});
  CHECK(find_python_line(table, 1, 0) == 101);
}

TEST_CASE("python_lines: a broken table has no line, and is read to its end at most") {
  CHECK(find_python_line({}, 1, 0) == 0);
  CHECK(find_python_line(bytes({0x10, 0x80}), 1, 0) == 0);
  CHECK(find_python_line(bytes({0x80 | 14 << 3, 0x7f, 0x7f, 0x7f}), 1, 100) == 0);
}
