#include "cli/support/usage_text.h"

#include <doctest/doctest.h>

using namespace meshbus::cli;
using namespace std::chrono_literals;

TEST_CASE("usage_text: CPU time") {
  CHECK(cpu_time_text(0us) == "0.00s");
  CHECK(cpu_time_text(459'999us) == "0.45s");
  CHECK(cpu_time_text(9'999'999us) == "9.99s");
  CHECK(cpu_time_text(12'345'678us) == "12.3s");
  CHECK(cpu_time_text(59'999'999us) == "59.9s");
  CHECK(cpu_time_text(60s) == "1m00s");
  CHECK(cpu_time_text(3599s) == "59m59s");
  CHECK(cpu_time_text(7h + 7min + 59s) == "7h07m");
  CHECK(cpu_time_text(1000h) == "1000h00m");
}

TEST_CASE("usage_text: memory") {
  CHECK(memory_text(0) == "0B");
  CHECK(memory_text(1023) == "1023B");
  CHECK(memory_text(1024) == "1.00K");
  CHECK(memory_text(64 << 20) == "64.0M");
  CHECK(memory_text((64 << 20) + (512 << 10)) == "64.5M");
  CHECK(memory_text(1023ull << 20) == "1.00G");
  CHECK(memory_text(812 << 10) == "812K");
  CHECK(memory_text(3ull << 29) == "1.50G");
  CHECK(memory_text(UINT64_MAX) == "16.0E");
}

TEST_CASE("usage_text: load") {
  CHECK(load_text(0) == "0.00");
  CHECK(load_text(0.999) == "1.00");
  CHECK(load_text(3.98) == "3.98");
  CHECK(load_text(128.4) == "128");
}
