#include "common/bus/chunk_pace.h"

#include <doctest/doctest.h>

using namespace std::chrono_literals;
using meshbus::ChunkPace;

TEST_CASE("chunk_pace: few chunks are under way where answers are quick, more on a long way") {
  ChunkPace pace;
  CHECK(pace.allowed() == ChunkPace::kFewest);
  for (int i = 0; i < 100; ++i) pace.on_answer(500us);
  CHECK(pace.allowed() == ChunkPace::kFewest);
  pace.on_answer(20ms);
  CHECK(pace.allowed() == ChunkPace::kFewest + 1);
  for (int i = 0; i < 100; ++i) pace.on_answer(20ms);
  CHECK(pace.allowed() == 20);
  for (int i = 0; i < 100; ++i) pace.on_answer(10s);
  CHECK(pace.allowed() == ChunkPace::kMost);
  for (int i = 0; i < 100; ++i) pace.on_answer(0ms);
  CHECK(pace.allowed() == ChunkPace::kFewest);
}
