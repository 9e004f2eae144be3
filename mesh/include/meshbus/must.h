#pragma once

#include <stdexcept>
#include <utility>

#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// The value of a Result, or an exception with the error's text: for tests, examples and programs
/// that end at the first error anyway. `*result` of an error is undefined behaviour instead.
///
///     auto hosts = meshbus::must(meshbus::HostMesh::process(context, extent, {}));
///     meshbus::must(hosts.shutdown());
///
/// Throws: std::runtime_error.
template <typename Value>
Value must(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}
inline void must(Result<void> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
}

}  // namespace meshbus
