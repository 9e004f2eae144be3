#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshbus/result.h"

namespace meshbus::bench {

/// The value; an error ends the benchmark.
template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Sorts the values. Throws std::runtime_error when there is none.
inline double percentile(std::vector<double>& values, std::size_t percent) {
  if (values.empty()) throw std::runtime_error("nothing was measured");
  std::sort(values.begin(), values.end());
  return values[values.size() * percent / 100];
}

}  // namespace meshbus::bench
