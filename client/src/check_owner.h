#pragma once

#include <memory>

#include "client/src/context_core.h"
#include "meshbus/result.h"

namespace meshbus {

/// What every call on an object gets that was moved from.
inline Error moved_from_error() {
  return {ErrorCode::refused, "this object was moved from: use the one that it was moved to"};
}

/// As ContextCore::check_may_wait(); refused when the core is that of a moved-from Context.
inline Result<void> check_owner(const std::shared_ptr<ContextCore>& core) {
  return core == nullptr ? fail(moved_from_error()) : core->check_may_wait();
}

/// The same for an owner whose Impl has a core().
template <typename Pointer>
Result<void> check_owner(const Pointer& impl) {
  if (impl == nullptr) return fail(moved_from_error());
  if constexpr (requires { impl->core()->check_may_wait(); }) {
    return impl->core()->check_may_wait();
  } else {
    return impl->core().check_may_wait();
  }
}

}  // namespace meshbus
