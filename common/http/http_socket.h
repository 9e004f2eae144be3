#pragma once

#include <string>

#include "common/base/unique_fd.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus::http {

/// A listening socket, and what is known of it.
struct HttpSocket {
  UniqueFd fd;
  /// "http://127.0.0.1:7425", or "unix:/run/m/page".
  std::string url;
  /// Where it listens, with the port that it has.
  HostAddr address = HostAddr::local(0);
  /// The socket file to remove at the end. Empty for tcp.
  std::string path;
};

/// Listens for HTTP at `tcp:HOST:PORT` (HOST is an IP address or localhost) or `unix:PATH` (only
/// this user may connect; a socket file that nobody serves is replaced). Does not block for DNS.
/// Errors: configuration_error (no such address), io_error (it is in use).
Result<HttpSocket> listen_http(const std::string& address);

/// The same for a socket that another process has made; see HttpSocket. The descriptor becomes
/// ours. Errors: io_error (it is no listening socket).
Result<HttpSocket> adopt_http_socket(UniqueFd fd, const std::string& address);

}  // namespace meshbus::http
