#include "common/http/http_access.h"

#include <algorithm>
#include <array>
#include <utility>

#include <sodium.h>

namespace meshbus::http {
namespace {

using Digest = std::array<unsigned char, crypto_generichash_BYTES>;

/// Texts of any length become values of one length, so that the comparison tells nothing of either.
Digest digest(std::string_view text) {
  Digest made{};
  crypto_generichash(made.data(), made.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), nullptr, 0);
  return made;
}

}  // namespace

HttpAccess::HttpAccess(HostAddr served, std::string token, std::vector<std::string> names)
    : served_(std::move(served)), token_(std::move(token)), names_(std::move(names)) {}

bool HttpAccess::is_host_known(std::string_view host) const {
  if (served_.transport() != Transport::tcp) return true;
  const auto end = host.rfind(':');
  const bool has_port = end != std::string_view::npos && host.find(']', end) == host.npos;
  const auto named = HostAddr::tcp(has_port ? host.substr(0, end) : host, 1);
  if (!named || named->is_wildcard()) return false;
  if (named->is_loopback()) return true;
  if (served_.is_loopback()) return false;
  const std::string_view name = named->host();
  const bool is_literal = name.find_first_not_of("0123456789.") == name.npos || named->is_ipv6();
  return is_literal || name == served_.host() || std::ranges::find(names_, name) != names_.end();
}

bool HttpAccess::has_token(const HttpRequest& request) const {
  if (token_.empty()) return true;
  return sodium_memcmp(digest(request.token).data(), digest(token_).data(),
                       crypto_generichash_BYTES) == 0;
}

bool HttpAccess::is_own_origin(const HttpRequest& request) {
  if (request.origin.empty()) return true;
  const auto authority = request.origin.find("://");
  return authority != std::string::npos && request.origin.substr(authority + 3) == request.host;
}

}  // namespace meshbus::http
