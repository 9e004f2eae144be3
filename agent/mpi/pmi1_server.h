#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/mpi/rank_layout.h"
#include "common/base/mpi_notice.h"

namespace meshbus::mpi {

/// PMI-1 for the ranks of one host: takes the lines that they write to PMI_FD, and says what they
/// read. Values are put at their host; a barrier carries the new ones to all hosts. Pure: it holds
/// no descriptor and no clock.
class Pmi1Server {
 public:
  /// What follows from a line.
  struct Outcome {
    std::vector<std::pair<std::uint64_t, std::string>> replies = {};  ///< Rank, line with newline.
    /// All ranks of this host are in the barrier: the new values, for an exchange with all hosts.
    std::optional<std::string> fence = {};
    /// The rank has called MPI_Abort, and waits for its end.
    bool aborts = false;
    std::optional<Notice> notice = {};
  };

  Pmi1Server(RankLayout layout, std::uint64_t host);

  /// A line without its newline.
  Outcome on_line(std::uint64_t rank, std::string_view line);
  /// What all hosts have put, as the exchange has it: the ranks leave the barrier.
  Outcome on_fence(std::string_view values);
  /// Whether that rank has called MPI_Init, and not MPI_Finalize.
  bool is_inside(std::uint64_t rank) const { return inside_.contains(rank); }
  /// Whether that rank has called MPI_Init.
  bool has_begun(std::uint64_t rank) const { return begun_.contains(rank); }

 private:
  Outcome put(std::uint64_t rank, std::string_view line);
  Outcome get(std::uint64_t rank, std::string_view line) const;
  Outcome enter_barrier(std::uint64_t rank);
  static Outcome abort(std::uint64_t rank, std::string_view line);

  RankLayout layout_;
  RankBlock block_;
  std::map<std::string, std::string, std::less<>> values_;
  std::string fresh_;  ///< Put since the last barrier: key, NUL, value, NUL, and so on.
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> inside_;
  std::set<std::uint64_t> begun_;
};

}  // namespace meshbus::mpi
