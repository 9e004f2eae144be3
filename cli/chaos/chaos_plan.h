#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// What can be done on purpose to a part of a site.
enum class ChaosKind : std::uint8_t { kill, freeze, slow, cut, mute, delay, fill };
/// "kill". Never null.
std::string_view to_string(ChaosKind kind) noexcept;
/// "kill,freeze". Errors: parse_error.
Result<std::vector<ChaosKind>> parse_chaos_kinds(std::string_view text);

/// A part of a site that can be disturbed. A plain value.
struct ChaosTarget {
  enum class Type : std::uint8_t { rank, role, link, disk };

  Type type = Type::rank;
  /// The host that is asked; a link has it as the end that does not send.
  HostAddr host = HostAddr::local(0);
  std::string mesh = {};  ///< With its uuid.
  std::uint64_t rank = 0;
  std::string role = {};  ///< "agent", "broker"
  /// The other end of a link.
  std::optional<HostAddr> peer = {};

  /// "train-13Se1Maqzryj[3]", "the broker of tcp:h1:7420", "tcp:h1:7420 - tcp:h2:7420"
  std::string text() const;
  bool operator==(const ChaosTarget& other) const = default;
};
bool fits(ChaosKind kind, ChaosTarget::Type type) noexcept;

/// What a schedule is made of.
struct ChaosSpec {
  std::uint64_t seed = 0;
  std::chrono::milliseconds every{10'000};
  std::chrono::milliseconds length{60'000};
  /// How long one disturbance lasts; kill lasts no time.
  std::chrono::milliseconds hold{5'000};
  std::size_t most = 1;  ///< So many are disturbed at a time.
  std::vector<ChaosKind> kinds = {};
};

/// One thing that is done.
struct ChaosDeed {
  std::chrono::milliseconds at{0};  ///< From the start.
  ChaosKind kind = ChaosKind::kill;
  ChaosTarget target = {};
  std::chrono::milliseconds hold{0};
};

/// The schedule: the same for the same seed, settings and targets, whatever order these come in. At
/// each beat one thing is done, unless as many as may be are disturbed then; nothing is disturbed
/// twice at a time, or longer than the whole length. Pure.
std::vector<ChaosDeed> make_chaos_plan(const ChaosSpec& spec, std::vector<ChaosTarget> targets);

}  // namespace meshbus::cli
