#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshbus::http {

/// One request, checked and decoded. Its texts come from outside: bounded, otherwise anything.
struct HttpRequest {
  std::string method;                                     ///< "GET", "HEAD", "POST".
  std::string path;                                       ///< Decoded, begins with '/'.
  std::map<std::string, std::string, std::less<>> query;  ///< Decoded; the first one of a name.
  std::string host;                                       ///< The Host header.
  std::string token;                                      ///< As in "Authorization: Bearer TOKEN".
  std::string origin;                                     ///< The Origin header; empty: none.
  std::string body;

  /// The value of that name in the query; empty when there is none.
  std::string_view find_query(std::string_view name) const {
    const auto found = query.find(name);
    return found == query.end() ? std::string_view() : std::string_view(found->second);
  }
};

/// What a request is answered with.
struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  /// Further headers. Each value is ours: it must not hold what came from outside.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// The head of a response with that length of body, up to the empty line. Every response forbids
/// its reader to guess its type, to frame it and to cache it. `length` nothing: the body ends with
/// the connection.
std::string write_head(const HttpResponse& response, const std::size_t* length);

/// A response of one line of text.
HttpResponse text_response(int status, std::string text);
/// What a request gets whose Host header names another server (HttpAccess::is_host_known).
HttpResponse unknown_host();

}  // namespace meshbus::http
