#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <variant>

#include "common/http/http_message.h"

namespace meshbus::http {

/// Reads one request of HTTP/1.1 from the bytes that have come so far. Pure.
class HttpParser {
 public:
  struct Limits {
    std::size_t head = 16 * 1024;
    std::size_t body = 64 * 1024;
  };
  /// More bytes are needed.
  struct Unfinished {};

  explicit HttpParser(Limits limits) : limits_(limits) {}

  /// The request, or the response that refuses it. Bytes behind the request are ignored: every
  /// connection serves one.
  std::variant<Unfinished, HttpRequest, HttpResponse> parse(std::string_view bytes) const;

 private:
  Limits limits_;
};

}  // namespace meshbus::http
