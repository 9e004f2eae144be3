#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

#include <doctest/doctest.h>

/// Property tests: many random cases of one seed. MESHBUS_TEST_PROPERTY_CASES says how many instead
/// of a test's own number, MESHBUS_TEST_PROPERTY_SEED repeats a run. The seed is printed; what
/// fails prints the case too.
namespace meshbus::test {

inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

inline std::uint64_t property_seed() {
  static const std::uint64_t seed = [] {
    const std::uint64_t chosen =
        number_from_environment("MESHBUS_TEST_PROPERTY_SEED", std::random_device{}());
    MESSAGE("MESHBUS_TEST_PROPERTY_SEED=", chosen);
    return chosen;
  }();
  return seed;
}

/// Calls `check(random)` once per case, each with a generator of its own that depends on nothing
/// but seed and case. A case that does as much as many others has a `weight`: of
/// MESHBUS_TEST_PROPERTY_CASES it takes that part.
template <typename Check>
void for_cases(std::uint64_t cases, Check check, std::uint64_t weight = 1) {
  const std::uint64_t seed = property_seed();
  const std::uint64_t count =
      number_from_environment("MESHBUS_TEST_PROPERTY_CASES", cases * weight) / weight;
  for (std::uint64_t i = 0; i < count; ++i) {
    INFO("MESHBUS_TEST_PROPERTY_SEED=", seed, " case ", i);
    std::mt19937_64 random(seed + i * 0x9E3779B97F4A7C15ULL);
    check(random);
  }
}

}  // namespace meshbus::test
