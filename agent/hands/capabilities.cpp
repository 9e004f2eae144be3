#include "agent/hands/capabilities.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/base/os_error.h"

namespace meshbus::hands {
namespace {

/// The kernel has fewer, and says so.
constexpr unsigned kMostCapabilities = 64;

std::uint32_t half(std::uint64_t set, std::size_t at) {
  return static_cast<std::uint32_t>(set >> (32 * at));
}

}  // namespace

Result<void> lower_bounds(const Capabilities& wanted) {
  for (unsigned one = 0; one < kMostCapabilities; ++one) {
    const int has_bound = ::prctl(PR_CAPBSET_READ, one, 0, 0, 0);
    if (has_bound < 0) break;
    const bool drops_bound = has_bound == 1 && (wanted.bounding >> one & 1U) == 0;
    if (drops_bound && ::prctl(PR_CAPBSET_DROP, one, 0, 0, 0) != 0)
      return fail(ErrorCode::io_error, os_error("its bounding set of capabilities"));
    if ((wanted.ambient >> one & 1U) == 0 &&
        ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, one, 0, 0) == 1 &&
        ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, one, 0, 0) != 0)
      return fail(ErrorCode::io_error, os_error("its ambient capabilities"));
  }
  return {};
}

Result<void> lower_capabilities(const Capabilities& wanted) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0)
    return fail(ErrorCode::io_error, os_error("our capabilities"));
  for (std::size_t at = 0; at < sets.size(); ++at) {
    sets[at].permitted &= half(wanted.permitted, at);
    sets[at].effective &= half(wanted.effective, at) & sets[at].permitted;
    sets[at].inheritable &= half(wanted.inheritable, at);
  }
  if (::syscall(SYS_capset, &header, sets.data()) != 0)
    return fail(ErrorCode::io_error, os_error("its capabilities"));
  return {};
}

}  // namespace meshbus::hands
