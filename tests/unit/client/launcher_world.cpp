// The launcher's monitor in a simulated world (launcher_world.h): whatever the faults, every change
// is told once and in order, every failure once, every line of a surviving host, and the end.
//   MESHBUS_TEST_SUPERVISION_SEEDS=2000   so many seeds instead of 200
//   MESHBUS_TEST_SUPERVISION_SEED=4711    that one alone
#include "tests/unit/supervision/launcher_world.h"

#include <cstdlib>
#include <type_traits>

#include <doctest/doctest.h>

namespace meshbus::test {
namespace {

std::optional<std::uint64_t> seed_setting(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

void run_one(std::uint64_t seed) {
  CAPTURE(seed);
  for (const auto& what : LauncherWorld(seed).run()) FAIL_CHECK(what);
}

}  // namespace

TEST_CASE("launcher_world: ranks that ended just before their host was lost hold up no end") {
  // The state of the end came, its exit report and the end of its output were lost with the host.
  for (const std::uint64_t seed : {613U, 647U, 951U}) run_one(seed);
}

// In parts, because a test case has a limit of time.
constexpr std::uint64_t kLauncherParts = 8;
template <std::uint64_t number>
using LauncherPart = std::integral_constant<std::uint64_t, number>;

TEST_CASE_TEMPLATE(
    "launcher_world: every change and every failure is told once, in order, no line is lost, and "
    "every wait ends, whatever the faults",
    P, LauncherPart<0>, LauncherPart<1>, LauncherPart<2>, LauncherPart<3>, LauncherPart<4>,
    LauncherPart<5>, LauncherPart<6>, LauncherPart<7>) {
  const auto only = seed_setting("MESHBUS_TEST_SUPERVISION_SEED");
  const auto all = seed_setting("MESHBUS_TEST_SUPERVISION_SEEDS").value_or(200);
  const auto first = only.value_or(1 + all * P::value / kLauncherParts);
  const auto last = 1 + all * (P::value + 1) / kLauncherParts;
  const auto end = only ? first + (P::value == 0 ? 1 : 0) : last;
  std::uint64_t messages = 0;
  std::uint64_t failures = 0;
  int bad = 0;
  for (std::uint64_t seed = first; seed < end && bad < 5; ++seed) {
    LauncherWorld world(seed);
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
  const auto count = end - first;
  if (count > 20) CHECK(failures > count);
  MESSAGE(count << " seeds, " << messages << " messages, " << failures << " failed ranks");
}

}  // namespace meshbus::test
