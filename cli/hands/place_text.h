#pragma once

#include <string>
#include <string_view>

namespace meshbus::cli {

/// A file or folder as `meshbus cp` takes it. Pure.
struct PlaceText {
  std::string ranks;  ///< As to_selector() takes it; empty: on this machine.
  std::string path;

  bool is_remote() const noexcept { return !ranks.empty(); }
  /// "train:3:/tmp/x", "train[0-3]:x", "train:/tmp/x". Local is what begins with '/' or '.', and
  /// what has no colon.
  static PlaceText parse(std::string_view text);
};

}  // namespace meshbus::cli
