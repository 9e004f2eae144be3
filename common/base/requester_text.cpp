#include "common/base/requester_text.h"

namespace meshbus {

std::string requester_text(const std::string& requester) {
  const auto comma = requester.rfind(',');
  if (comma == std::string::npos || !requester.substr(comma + 1).starts_with("client-"))
    return requester;
  return "a command or launcher at " + requester.substr(0, comma);
}

}  // namespace meshbus
