#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/chaos/chaos_plan.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;
using Type = ChaosTarget::Type;

HostAddr host(int number) {
  return *HostAddr::parse("tcp:h" + std::to_string(number) + ":7420");
}

std::vector<ChaosTarget> some_targets() {
  std::vector<ChaosTarget> targets;
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    targets.push_back({.type = Type::rank,
                       .host = host(static_cast<int>(rank / 2)),
                       .mesh = "train-11111111111b",
                       .rank = rank});
  targets.push_back({.type = Type::role, .host = host(0), .role = "broker"});
  targets.push_back({.type = Type::role, .host = host(1), .role = "agent"});
  targets.push_back({.type = Type::link, .host = host(0), .peer = host(1)});
  return targets;
}

ChaosSpec some_spec() {
  ChaosSpec spec;
  spec.seed = 7;
  spec.every = 1s;
  spec.length = 30s;
  spec.hold = 2500ms;
  spec.most = 2;
  spec.kinds = {ChaosKind::kill, ChaosKind::freeze, ChaosKind::cut};
  return spec;
}

std::string text_of(const std::vector<ChaosDeed>& plan) {
  std::string text;
  for (const auto& deed : plan)
    text += std::to_string(deed.at.count()) + " " + std::string(to_string(deed.kind)) + " " +
            deed.target.text() + " " + std::to_string(deed.hold.count()) + "\n";
  return text;
}

TEST_CASE("chaos_plan: the same seed gives the same schedule, whatever order the targets come in") {
  auto targets = some_targets();
  const auto plan = text_of(make_chaos_plan(some_spec(), targets));
  CHECK(plan != "");
  std::reverse(targets.begin(), targets.end());
  auto spec = some_spec();
  std::reverse(spec.kinds.begin(), spec.kinds.end());
  CHECK(text_of(make_chaos_plan(spec, targets)) == plan);
  spec.seed = 8;
  CHECK(text_of(make_chaos_plan(spec, targets)) != plan);
}

TEST_CASE("chaos_plan: a seed means the same in every release") {
  auto spec = some_spec();
  spec.length = 4s;
  CHECK(text_of(make_chaos_plan(spec, some_targets())) ==
        "0 kill train-11111111111b[0] 0\n"
        "1000 kill train-11111111111b[3] 0\n"
        "2000 freeze train-11111111111b[3] 2000\n"
        "3000 freeze train-11111111111b[2] 1000\n");
}

TEST_CASE("chaos_plan: never more at a time than may be, nothing twice, nothing beyond the end") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto spec = some_spec();
    spec.seed = seed;
    std::map<std::string, std::chrono::milliseconds> busy_until;
    for (const auto& deed : make_chaos_plan(spec, some_targets())) {
      CHECK(fits(deed.kind, deed.target.type));
      CHECK(deed.at % spec.every == 0ms);
      CHECK(deed.at + deed.hold <= spec.length);
      CHECK((deed.kind == ChaosKind::kill) == (deed.hold == 0ms));
      std::erase_if(busy_until, [&](const auto& entry) { return entry.second <= deed.at; });
      CHECK_FALSE(busy_until.contains(deed.target.text()));
      if (deed.hold > 0ms) busy_until[deed.target.text()] = deed.at + deed.hold;
      CHECK(busy_until.size() <= spec.most);
    }
  }
}

TEST_CASE("chaos_plan: each kind and each target has its turn") {
  auto spec = some_spec();
  spec.length = 1000s;
  std::set<std::string> targets;
  std::set<ChaosKind> kinds;
  for (const auto& deed : make_chaos_plan(spec, some_targets())) {
    targets.insert(deed.target.text());
    kinds.insert(deed.kind);
  }
  CHECK(targets.size() == some_targets().size());
  CHECK(kinds.size() == 3);
}

TEST_CASE("chaos_plan: kinds are read, and a typo is told") {
  const auto kinds = parse_chaos_kinds("freeze,kill,freeze");
  REQUIRE(kinds.has_value());
  CHECK(*kinds == std::vector{ChaosKind::freeze, ChaosKind::kill});
  for (const char* const text : {"", "kill,", "burn"}) CHECK_FALSE(parse_chaos_kinds(text));
  CHECK(parse_chaos_kinds("freze").error().detail().find("did you mean 'freeze'?") !=
        std::string::npos);
}

}  // namespace
}  // namespace meshbus::cli
