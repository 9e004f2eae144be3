#include "cli/chaos/chaos_plan.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "common/base/did_you_mean.h"

namespace meshbus::cli {
namespace {

using Type = ChaosTarget::Type;

constexpr std::array kKinds = {ChaosKind::kill, ChaosKind::freeze, ChaosKind::slow, ChaosKind::cut,
                               ChaosKind::mute, ChaosKind::delay,  ChaosKind::fill};

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine and in every release.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::size_t roll(std::size_t sides) {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((z ^ (z >> 31)) % sides);
  }

 private:
  std::uint64_t state_;
};

auto order_of(const ChaosTarget& target) {
  return std::tuple(target.type, target.mesh, target.rank, target.host.to_string(), target.role,
                    target.peer ? target.peer->to_string() : std::string());
}

/// The targets that a kind may be done to and that nothing is done to now.
std::vector<const ChaosTarget*> free_for(ChaosKind kind, const std::vector<ChaosTarget>& targets,
                                         const std::vector<ChaosDeed>& active) {
  std::vector<const ChaosTarget*> free;
  for (const auto& target : targets) {
    const bool is_busy =
        std::any_of(active.begin(), active.end(),
                    [&target](const ChaosDeed& deed) { return deed.target == target; });
    if (fits(kind, target.type) && !is_busy) free.push_back(&target);
  }
  return free;
}

}  // namespace

std::string_view to_string(ChaosKind kind) noexcept {
  switch (kind) {
    case ChaosKind::kill: return "kill";
    case ChaosKind::freeze: return "freeze";
    case ChaosKind::slow: return "slow";
    case ChaosKind::cut: return "cut";
    case ChaosKind::mute: return "mute";
    case ChaosKind::delay: return "delay";
    case ChaosKind::fill: return "fill";
  }
  return "kill";
}

Result<std::vector<ChaosKind>> parse_chaos_kinds(std::string_view text) {
  std::vector<ChaosKind> kinds;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto word = text.substr(begin, end - begin);
    const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                    [word](ChaosKind kind) { return to_string(kind) == word; });
    if (found == kKinds.end()) {
      std::vector<std::string_view> names;
      for (const auto kind : kKinds) names.push_back(to_string(kind));
      const auto near = did_you_mean(word, names);
      return fail(ErrorCode::parse_error,
                  "'" + std::string(word) + "' is nothing that can be done: " +
                      (near.empty() ? "kill, freeze, slow, cut, mute, delay or fill"
                                    : "did you mean '" + std::string(near) + "'?"));
    }
    if (std::find(kinds.begin(), kinds.end(), *found) == kinds.end()) kinds.push_back(*found);
    begin = end + 1;
  }
  return kinds;
}

std::string ChaosTarget::text() const {
  switch (type) {
    case Type::rank: return mesh + "[" + std::to_string(rank) + "]";
    case Type::role: return "the " + role + " of " + host.to_string();
    case Type::link: return host.to_string() + " - " + (peer ? peer->to_string() : "?");
    case Type::disk: return "the disk of " + host.to_string();
  }
  return {};
}

bool fits(ChaosKind kind, Type type) noexcept {
  switch (kind) {
    case ChaosKind::kill:
    case ChaosKind::freeze: return type == Type::rank || type == Type::role;
    case ChaosKind::slow: return type == Type::rank;
    case ChaosKind::cut:
    case ChaosKind::mute:
    case ChaosKind::delay: return type == Type::link;
    case ChaosKind::fill: return type == Type::disk;
  }
  return false;
}

std::vector<ChaosDeed> make_chaos_plan(const ChaosSpec& spec, std::vector<ChaosTarget> targets) {
  std::vector<ChaosDeed> plan;
  if (spec.every.count() <= 0) return plan;
  const auto is_before = [](const auto& a, const auto& b) { return order_of(a) < order_of(b); };
  std::sort(targets.begin(), targets.end(), is_before);
  auto kinds = spec.kinds;
  std::sort(kinds.begin(), kinds.end());
  Dice dice(spec.seed);
  std::vector<ChaosDeed> active;
  for (auto at = std::chrono::milliseconds(0); at < spec.length; at += spec.every) {
    std::erase_if(active, [at](const ChaosDeed& deed) { return deed.at + deed.hold <= at; });
    if (active.size() >= spec.most) continue;
    std::vector<std::pair<ChaosKind, std::vector<const ChaosTarget*>>> choices;
    for (const auto kind : kinds) {
      auto free = free_for(kind, targets, active);
      if (!free.empty()) choices.emplace_back(kind, std::move(free));
    }
    if (choices.empty()) continue;
    const auto& [kind, free] = choices[dice.roll(choices.size())];
    const auto hold = kind == ChaosKind::kill ? std::chrono::milliseconds(0)
                                              : std::min(spec.hold, spec.length - at);
    plan.push_back({at, kind, *free[dice.roll(free.size())], hold});
    if (hold.count() > 0) active.push_back(plan.back());
  }
  return plan;
}

}  // namespace meshbus::cli
