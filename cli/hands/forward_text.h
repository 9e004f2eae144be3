#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "meshbus/result.h"

namespace meshbus::cli {

/// What `meshbus forward` is asked for: "8080:train:3:80", "/tmp/socket:train[3]:80". Pure.
struct ForwardText {
  /// A port of 127.0.0.1, 0 = any; or a unix socket, when `path` is not empty.
  std::uint16_t port = 0;
  std::string path = {};
  std::string ranks = {};  ///< As to_selector() takes it.
  std::uint16_t rank_port = 0;

  /// Errors: parse_error, in words.
  static Result<ForwardText> parse(std::string_view text);
};

}  // namespace meshbus::cli
