#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/http/http_message.h"
#include "meshbus/address.h"

namespace meshbus::http {

/// Decides which requests a server answers. Pure.
class HttpAccess {
 public:
  /// `served`: where the server listens. `token`: what a request must bear; empty: nothing.
  /// `names`: those of this machine (machine_names.h).
  HttpAccess(HostAddr served, std::string token, std::vector<std::string> names);

  /// Whether the Host header names this server. A page of another site whose name was made to
  /// point here (DNS rebinding) has that name in it. A server on a loopback address goes by
  /// loopback names only, another one by any IP address, the names of its machine and localhost; on
  /// a unix socket, which no browser reaches, by any.
  bool is_host_known(std::string_view host) const;
  /// Whether the request has the token. Takes the same time for every wrong one.
  bool has_token(const HttpRequest& request) const;
  /// Whether the request comes from a page of this server, or from no page at all.
  static bool is_own_origin(const HttpRequest& request);

 private:
  HostAddr served_;
  std::string token_;
  std::vector<std::string> names_;
};

}  // namespace meshbus::http
