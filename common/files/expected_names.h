#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus {

/// The names under which what was asked for may come, in that order and each once. The other side
/// of a copy does not choose them: it could name .bashrc. Pure.
class ExpectedNames {
 public:
  /// The last component of each path. One that says nothing about its name (".", "a/..", "/") is
  /// called `substitute` here, whatever it is there.
  ExpectedNames(const std::vector<std::string>& paths, std::string substitute);

  /// What comes under that name: the name that it gets here. Nothing: it was not asked for, or has
  /// come already.
  std::optional<std::string> take(std::string_view name);

 private:
  std::vector<std::string> names_;  ///< Empty: any.
  std::string substitute_;
  std::size_t at_ = 0;
};

}  // namespace meshbus
