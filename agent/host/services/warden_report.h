#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "wire/forward.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::host {

/// What the warden tells of the roles of its host and of its last upgrade: the two texts of
/// agent/warden/upgrader.h. A text that is not understood changes nothing. A plain value.
class WardenReport {
 public:
  /// False: this word is for somebody else.
  bool take(std::string_view word, std::string_view text);
  void add_to(wire::HostStateT& state) const;

 private:
  void take_roles(std::string_view text);
  void take_upgrade(std::string_view text);

  std::vector<wire::HostRoleT> roles_;
  std::unique_ptr<wire::HostUpgradeT> upgrade_;
};

}  // namespace meshbus::host
