#include "cli/support/mesh_pattern.h"

#include <doctest/doctest.h>

using namespace meshbus::cli;

TEST_CASE("mesh_pattern: a word is a whole name, a base, or a pattern for one of them") {
  const std::string mesh = "train_a-13Se1Maqzryj";
  for (const char* word : {"", "train_a", "train_a-13Se1Maqzryj", "train_*", "train_?", "*",
                           "train_a-*", "*-13Se1Maqzryj", "*a"}) {
    CAPTURE(word);
    CHECK(is_named(mesh, word));
  }
  for (const char* word : {"train", "train_", "train_??", "rain_*", "*b", "train_a-", "TRAIN*",
                           "train_\\*", "train_[a]"}) {
    CAPTURE(word);
    CHECK_FALSE(is_named(mesh, word));
  }
}

TEST_CASE("mesh_pattern: only * and ? make a pattern") {
  CHECK(is_pattern("train*"));
  CHECK(is_pattern("?"));
  CHECK_FALSE(is_pattern("train_a-13Se1Maqzryj"));
  CHECK_FALSE(is_pattern(""));
}
