// The controller's machine in a simulated world (supervision_world.h): whatever the faults, its
// promises are kept.
//   MESHBUS_TEST_SUPERVISION_SEEDS=100000   so many seeds instead of 500
//   MESHBUS_TEST_SUPERVISION_SEED=4711      that one alone
#include <cstdlib>
#include <type_traits>

#include <doctest/doctest.h>

#include "tests/unit/supervision/world.h"

namespace meshbus::test {
namespace {

std::optional<std::uint64_t> number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

}  // namespace

// In parts, because a test case has a limit of time.
constexpr std::uint64_t kParts = 8;
template <std::uint64_t number>
using Part = std::integral_constant<std::uint64_t, number>;

TEST_CASE_TEMPLATE(
    "supervision: every failed rank is reported once and truly, no healthy one ever, and statuses "
    "converge, whatever the faults",
    P, Part<0>, Part<1>, Part<2>, Part<3>, Part<4>, Part<5>, Part<6>, Part<7>) {
  const auto only = number_of("MESHBUS_TEST_SUPERVISION_SEED");
  const auto all = number_of("MESHBUS_TEST_SUPERVISION_SEEDS").value_or(500);
  const auto first = only.value_or(1 + all * P::value / kParts);
  const auto count =
      only ? (P::value == 0 ? 1 : 0) : all * (P::value + 1) / kParts - all * P::value / kParts;
  std::uint64_t messages = 0;
  std::uint64_t failures = 0;
  std::uint64_t bad = 0;
  for (std::uint64_t seed = first; seed < first + count && bad < 5; ++seed) {
    SupervisionWorld world(seed);
    const auto wrong = world.run();
    messages += world.messages();
    failures += world.failures();
    if (wrong.empty()) continue;
    ++bad;
    std::string text;
    for (const auto& what : wrong) text += "\n  " + what;
    FAIL_CHECK("seed " << seed << ": again with MESHBUS_TEST_SUPERVISION_SEED=" << seed << text);
  }
  // It is no proof when nothing happened.
  if (count > 100) CHECK(failures > count);
  MESSAGE(count << " seeds, " << messages << " messages, " << failures << " failed ranks");
}

}  // namespace meshbus::test
