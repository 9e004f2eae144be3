// Help texts in lines that fit a terminal.
#include "cli/support/wrapped_text.h"

#include <doctest/doctest.h>

using meshbus::cli::wrapped;

TEST_CASE("wrapped_text: lines are broken between words, and none is longer than the width") {
  CHECK(wrapped("one two three four five six", 30) == "one two three four five six");
  CHECK(wrapped("one two three four five six seven", 20) == "one two three four\nfive six seven");
  CHECK(wrapped("a_word_that_is_longer_than_any_line and more", 20) == "a_word_that_is_longer_than_any_line\nand more");
}

TEST_CASE("wrapped_text: all lines but the first are indented") {
  CHECK(wrapped("one two three four five six seven", 30, 10) == "one two three four\n          five six seven");
}

TEST_CASE("wrapped_text: a line of a paragraph joins the next; indented and empty lines stay") {
  CHECK(wrapped("one two\nthree\n\n  an example   as it is\nfour\nfive", 30) == "one two three\n\n  an example   as it is\nfour five");
  CHECK(wrapped("", 30).empty());
}
