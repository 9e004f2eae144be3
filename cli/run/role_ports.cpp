#include "cli/run/role_ports.h"

namespace meshbus::cli {
namespace {

constexpr int kPortTries = 32;

}  // namespace

Result<std::uint16_t> RolePorts::find(const std::string& machine, const Ask& ask) {
  for (int i = 0; i < kPortTries; ++i) {
    auto port = ask();
    if (!port || taken_.emplace(machine, *port).second) return port;
  }
  return fail(ErrorCode::io_error,
              "every free port that is found on " + machine + " was given to another role");
}

}  // namespace meshbus::cli
