#pragma once

#include <string>
#include <string_view>

namespace meshbus::cli {

/// Escapes what a rank writes, for a terminal, when it comes in pieces that are broken anywhere: a
/// character that is not complete waits for its rest. Pure.
class ShownStream {
 public:
  std::string add(std::string_view piece);
  /// The stream is at its end.
  std::string rest();

 private:
  std::string waiting_;
};

}  // namespace meshbus::cli
