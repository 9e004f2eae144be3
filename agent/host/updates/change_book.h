#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/model/proc_table.h"

namespace meshbus::host {

/// Numbers what has changed on this host, for those that ask again and again what has changed since
/// a number. It finds changes by looking at everything when it is asked to, about 50 ns a proc, so
/// nothing else has to tell it, and it keeps nothing for any asker.
class ChangeBook {
 public:
  static constexpr std::size_t kMostForgotten = 1000;

  /// Numbers what has changed since the last look.
  void look(const ProcTable::Meshes& meshes);
  /// The number of the last change.
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Whether it is known which meshes were forgotten after that number.
  bool is_known(std::uint64_t since) const noexcept {
    return since >= known_since_ && since <= sequence_;
  }
  std::vector<std::string> forgotten_after(std::uint64_t since) const;

 private:
  std::uint64_t sequence_ = 1;
  std::set<std::string, std::less<>> names_;
  std::deque<std::pair<std::uint64_t, std::string>> forgotten_;
  std::uint64_t known_since_ = 0;
};

}  // namespace meshbus::host
