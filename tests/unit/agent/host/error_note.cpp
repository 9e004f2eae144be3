// What a rank's error file says in its exit report (spec 17.2).
#include "agent/host/model/error_note.h"

#include <doctest/doctest.h>

#include <string>

using meshbus::host::error_note;

TEST_CASE("error_note: torch's record gives the message and the last place of the traceback") {
  CHECK(error_note(R"({"message": {"message": "RuntimeError: boom\nmore", "extraInfo": {
            "py_callstack": "Traceback:\n  File \"a.py\", line 9, in <module>\n    f()\n)"
                   R"(  File \"b.py\", line 3, in f\n    raise RuntimeError\nRuntimeError: boom\n",
            "timestamp": "1"}}})") == "RuntimeError: boom (File \"b.py\", line 3, in f)");
  CHECK(error_note(R"({"message": {"message": "no stack"}})") == "no stack");
  CHECK(error_note(R"({"message": "a text"})") == "a text");
}

TEST_CASE("error_note: of plain text, and of what is no record, the first line counts") {
  CHECK(error_note("\n  disk full\nsecond\n") == "disk full");
  CHECK(error_note("{\"message\": ") == "{\"message\":");
  CHECK(error_note("[1, 2]") == "[1, 2]");
  CHECK(error_note(R"({"other": 1})") == R"({"other": 1})");
  CHECK(error_note(R"({"message": {"message": 3, "extraInfo": 4}})").starts_with("{"));
  CHECK(error_note(R"({"message": {"message": "m", "extraInfo": []}})") == "m");
  CHECK(error_note(" \n ").empty());
}

TEST_CASE("error_note: control characters are escaped, and a long line is cut") {
  CHECK(error_note("a\x1b[31mred") == "a\\u{1b}[31mred");
  const auto note = error_note(std::string(5000, 'x'));
  CHECK(note.size() == 200);
  CHECK(note.ends_with("x..."));
  std::string wide = "x";
  while (wide.size() < 1000) wide += "\xc3\xa4";
  const auto cut = error_note(wide);
  CHECK(cut.size() <= 200);
  CHECK(cut.substr(cut.size() - 5, 2) == "\xc3\xa4");
  // Nested without end: no stack of ours is used up.
  CHECK(error_note(std::string(60'000, '[')).size() == 200);
}
