#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "common/base/bytes.h"
#include "common/base/unique_fd.h"
#include "meshbus/result.h"

namespace meshbus {

/// Memory that is written once and sealed, so that another process can map it and trust that its
/// bytes and its size stay as they are (spec 9.2). It belongs to no file system; the last
/// descriptor or mapping frees it.
class SealedMemory {
 public:
  /// Copies these, one behind the other, without mapping them, which spares a page fault for each
  /// page. Errors: io_error.
  static Result<UniqueFd> copy(std::span<const Bytes> pieces);
  /// `write` fills so many bytes, which are zero before. Errors: io_error.
  static Result<UniqueFd> fill(std::size_t bytes, const std::function<void(char*)>& write);

  /// Maps what another process made, to be read, once it is known to be sealed memory of exactly
  /// that size, without holes: nothing that its maker does later can change a byte, or end the
  /// reader with SIGBUS. The descriptor may be closed afterwards. Errors: io_error.
  static Result<std::shared_ptr<const void>> map(int descriptor, std::size_t bytes);
};

}  // namespace meshbus
