#include "common/base/release.h"

namespace meshbus {

std::string_view this_release() noexcept {
  return MESHBUS_VERSION;
}

}  // namespace meshbus
