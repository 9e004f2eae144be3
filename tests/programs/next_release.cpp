// Linked before common/base/release.cpp, which is not taken from its library then: a program of
// another release, of the same sources.
#include "common/base/release.h"

namespace meshbus {

std::string_view this_release() noexcept {
  return "0.2.0-next";
}

}  // namespace meshbus
