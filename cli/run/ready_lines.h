#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshbus::cli {

/// Finds out by what ranks write which of them are ready (--ready-text). Pure.
class ReadyLines {
 public:
  /// `text` in a line of a rank says that it is ready; empty: no line does. More ranks may come.
  ReadyLines(std::string text, std::uint64_t ranks);
  /// The rank has written this, whole lines. Returns true once for each incarnation.
  bool is_ready_now(std::uint64_t rank, std::string_view lines);
  /// Its next incarnation has to say so again.
  void forget(std::uint64_t rank);

 private:
  std::string text_;
  std::vector<bool> is_ready_;
};

}  // namespace meshbus::cli
