#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "agent/os/cgroup_placement.h"
#include "agent/os/spec.h"
#include "meshbus/result.h"

namespace meshbus::os {

/// What a cgroup can limit.
enum class Controller : std::uint8_t { memory, pids, cpu };
inline constexpr std::array kControllers{Controller::memory, Controller::pids, Controller::cpu};

/// "memory", "pids", "cpu": as the kernel calls them.
std::string_view to_string(Controller controller) noexcept;
/// What was asked of it, for people: "limit of 64MiB of memory", "limit of 1.5 CPUs". Nothing was:
/// empty.
std::string words_of(const GroupLimits& limits, Controller controller);

/// Where a host makes the cgroups of its limited procs for one controller. A plain value.
struct LimitPlace {
  int version = 0;   ///< 1 or 2, the hierarchy's; 0: it cannot be had.
  std::string path;  ///< The host's own directory, `…/meshbus-1f00c2ab`: made when it is first
                     ///< needed. Version 0: why there is none.

  friend bool operator==(const LimitPlace&, const LimitPlace&) = default;
};

/// The places of one host, by controller.
class LimitPlaces {
 public:
  /// Looks where cgroups can be made: v2 as `host` says, v1 below those of this process. Makes
  /// nothing. `name` is the host's, as in its run directory.
  static LimitPlaces find(const std::string& name, const CgroupPlacement& host);

  /// The host's directory in cgroup v2; empty: none of them is there.
  std::string v2_path() const;
  /// Makes that directory and what it takes that procs can be limited in it. Of what cannot be had,
  /// the place says why from then on.
  void claim_v2(const CgroupPlacement& host);

  const LimitPlace& at(Controller controller) const {
    return places_[static_cast<std::size_t>(controller)];
  }
  LimitPlace& at(Controller controller) { return places_[static_cast<std::size_t>(controller)]; }

  /// Each of their directories once, those that are not there yet too.
  std::vector<std::string> directories() const;

  /// "memory:1:/sys/fs/cgroup/memory/meshbus-1f00c2ab": how the warden tells its roles.
  std::string to_text(Controller controller) const;
  /// Takes over what one such text says. False: it is none.
  bool read_text(std::string_view text);

  /// Whether procs could be given these limits, as far as that can be told without making anything.
  /// Errors: configuration_error, saying which limit, where, why not and what to do.
  Result<void> check(const GroupLimits& limits) const;

 private:
  std::array<LimitPlace, kControllers.size()> places_{
      {{0, "not looked for yet"}, {0, "not looked for yet"}, {0, "not looked for yet"}}};
};

}  // namespace meshbus::os
