#pragma once

#include <string>
#include <vector>

#include "cli/run/role_start.h"
#include "cli/run/run_events.h"
#include "cli/run/run_job.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// Carries out orders for another size of one role (`meshbus grow`, `meshbus shrink`), on the
/// threads of the orders, one at a time.
class RoleResize {
 public:
  /// `name`: in front of what is said of it; may be empty. `spares`: hosts of the run that its
  /// attempt does not use. The others outlive this.
  RoleResize(const RoleArguments& role, std::string name, std::vector<HostAddr> spares,
             RunEvents& events, const RoleParts& parts)
      : role_(role),
        name_(std::move(name)),
        spares_(std::move(spares)),
        events_(events),
        parts_(parts) {}

  Result<ResizeReport> carry_out(const ResizeOrder& order) const;

 private:
  /// Why it stays as it is; empty: it does not have to.
  std::string refusal() const;
  /// Where a growth goes that names no hosts: idle spares, then the hosts that the role has.
  /// Empty: as the library chooses.
  std::vector<HostAddr> choose(std::uint64_t blocks) const;

  const RoleArguments& role_;
  std::string name_;
  std::vector<HostAddr> spares_;
  RunEvents& events_;
  const RoleParts& parts_;
};

}  // namespace meshbus::cli
