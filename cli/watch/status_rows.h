#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/support/table.h"
#include "meshbus/rank_report.h"

namespace meshbus::cli {

/// The ranks of a mesh, in groups that `meshbus status` shows in one row: of one status and, when
/// they have ended, of one end. A rank that failed in whatever way is Failed, also when its program
/// has only exited with a code that is not 0. Pure.
class StatusRows {
 public:
  void add(const RankReport& rank);
  /// A rank that no host reports. `has_answered`: its host was asked, and does not have it.
  void add_unheard(std::uint64_t rank, bool has_answered);

  bool has(Status::Kind status) const;

  /// MESH, STATUS, RANKS; and END, RESTARTS, TROUBLE where there is any among `meshes`.
  static std::string text(const std::map<std::string, StatusRows>& meshes,
                          bool is_coloured = false);
  nlohmann::ordered_json json() const;
  /// Those with something wrong: [{trouble, ranks}].
  nlohmann::ordered_json troubles_json() const;

 private:
  struct Row {
    Status::Kind status = Status::Kind::unknown;
    /// In words; empty: it has not ended.
    std::string end = {};
    std::optional<int> exit_code = {};
    int signal = 0;
    std::uint64_t restarts = 0;
    Trouble trouble = Trouble::none;
    friend auto operator<=>(const Row&, const Row&) = default;
  };
  std::map<Row, std::vector<std::uint64_t>> rows_;
};

}  // namespace meshbus::cli
