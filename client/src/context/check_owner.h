#pragma once

#include <cstdint>
#include <memory>

#include "client/src/context/context_core.h"
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

/// Tells the handler of an asynchronous call that no rank gets it.
inline void refuse_ranks(const RankAnswerHandler& handler, std::uint64_t ranks,
                         const Error& error) {
  for (std::uint64_t ordinal = 0; ordinal < ranks; ++ordinal) handler(ordinal, fail(error));
}

}  // namespace meshbus
