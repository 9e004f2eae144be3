// Tables whose columns never run together.
#include "cli/support/table.h"

#include <doctest/doctest.h>

using meshbus::cli::Table;

TEST_CASE("table: a column is as wide as its widest cell, and two blanks separate columns") {
  Table table({{"RANK", Table::Side::right}, {"POINT"}, {"PID"}});
  table.add({"0", "worker=0/211949211949211949", "1"});
  table.add({"10", "worker=1", "12345"});
  CHECK(table.text("  ") ==
        "  RANK  POINT                        PID\n"
        "     0  worker=0/211949211949211949  1\n"
        "    10  worker=1                     12345\n");
}

TEST_CASE("table: an empty last cell leaves no blanks, and a missing one is empty") {
  Table table({{"A"}, {"B"}});
  table.add({"one", ""});
  table.add({"two"});
  CHECK(table.text() == "A    B\none\ntwo\n");
}

TEST_CASE("table: control characters are escaped, characters of UTF-8 count as one column") {
  Table table({{"A"}, {"B"}});
  table.add({"\x1b[31mred", "x"});
  table.add({"\xc3\xa4\xc3\xb6", "y"});
  const auto text = table.text();
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\xc3\xa4\xc3\xb6") != std::string::npos);
}
