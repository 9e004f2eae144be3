#include "cli/hands/forward_text.h"

#include "common/base/quantity.h"

namespace meshbus::cli {

Result<ForwardText> ForwardText::parse(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return fail(ErrorCode::parse_error, "'" + std::string(text) + "': " + why +
                                            "; it is LOCAL:RANKS:PORT, as 8080:train:3:80");
  };
  const auto first = text.find(':');
  const auto last = text.rfind(':');
  if (first == std::string_view::npos || first == last) return wrong("parts are missing");
  ForwardText forward;
  const auto local = text.substr(0, first);
  if (local.find('/') != std::string_view::npos) {
    forward.path = local;
  } else {
    const auto port = parse_whole<std::uint16_t>(local);
    if (!port) return wrong("'" + std::string(local) + "' is neither a port nor a path");
    forward.port = *port;
  }
  const auto rank_port = parse_whole<std::uint16_t>(text.substr(last + 1));
  if (!rank_port || *rank_port == 0)
    return wrong("'" + std::string(text.substr(last + 1)) + "' is no port");
  forward.rank_port = *rank_port;
  forward.ranks = text.substr(first + 1, last - first - 1);
  if (forward.ranks.empty()) return wrong("the rank is missing");
  return forward;
}

}  // namespace meshbus::cli
