#include "common/address/address_list.h"

#include <algorithm>

namespace meshbus::address_list {

std::size_t find_region(std::string_view text) noexcept {
  std::size_t found = std::string_view::npos;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '@' && !quoted) found = i;
    if (text[i] == '\\' && quoted) ++i;  // whatever is escaped, it ends no quote
  }
  return found;
}

Result<std::vector<HostAddr>> parse(text::Scanner part) {
  std::vector<HostAddr> hosts;
  while (!part.at_end() || !hosts.empty()) {
    const std::size_t end = part.position() + std::min(part.rest().find(','), part.rest().size());
    Result<HostAddr> host = HostAddr::parse(part.part("host address", part.position(), end));
    if (!host) return fail(std::move(host).error());
    hosts.push_back(std::move(*host));
    if (end == part.end()) break;
    part.advance(end + 1 - part.position());
  }
  return hosts;
}

void append(std::string& out, const std::vector<HostAddr>& hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (i != 0) out += ',';
    out += hosts[i].to_string();
  }
}

}  // namespace meshbus::address_list
