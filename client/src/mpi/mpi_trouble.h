#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mpi_notice.h"
#include "meshbus/rank_report.h"

namespace meshbus {

/// Judges what MPI helpers tell of ranks: which of it ends the job, and in which words. Pure.
class MpiTrouble {
 public:
  /// Why a job is to be stopped.
  struct Verdict {
    int code = 0;  ///< For `run` to exit with.
    std::uint64_t rank = 0;
    std::string words;  ///< "MPI_Abort(7) by rank 3"
    /// The rank was refused a call, and how it ends follows from that: `run` exits with `code`,
    /// whichever of the two it heard of first.
    bool is_before_the_end = false;
  };

  void add(const mpi::Notice& notice);
  /// The first reason to stop that is not left to the end of the rank itself. `ranks` are the
  /// reports of all. With `may_restart` the end of a rank that has aborted is for the
  /// RestartPolicy.
  std::optional<Verdict> decide(const std::vector<RankReport>& ranks, bool may_restart);
  /// What really failed first when `first` is a rank whose library has aborted: the rank that left
  /// without an abort of its own. It may end later, because its library takes its time. Else
  /// `first`.
  std::optional<RankReport> first_failure(const std::vector<RankReport>& ranks,
                                          const std::optional<RankReport>& first) const;
  /// All have ended, and the failure `first` came first. Returns whether an abort had been decided
  /// for that is no cause any more: another rank had ended before, and was heard of later.
  bool end(const std::vector<RankReport>& ranks, const std::optional<RankReport>& first);
  /// The abort that the rank which has failed took part in: the first one of that attempt. Ranks
  /// that lose the one that has called MPI_Abort abort, too, or exit with a code of their library,
  /// and may end earlier.
  std::optional<Verdict> abort_of(const RankReport& failure) const;
  /// The same in words: "MPI_Abort(7) by rank 3".
  std::optional<std::string> words_of(const RankReport& failure) const;
  /// The line for the end of a run whose first failure that is, or nothing.
  std::string last_words(const std::optional<RankReport>& failure) const;

 private:
  static Verdict verdict_of(const mpi::Notice& notice);
  /// By the clocks of their hosts; nullptr = there is none.
  const mpi::Notice* earliest(const std::function<bool(const mpi::Notice&)>& is_meant) const;
  /// An MPI library that loses the other end aborts: with a code of its own, or with that of an MPI
  /// error. Such an abort follows from the end of the other rank.
  bool follows_an_end(const mpi::Notice& abort, const std::vector<RankReport>& ranks) const;
  /// The same, where the other rank has called MPI_Abort, and was heard of later.
  bool follows_an_abort(const mpi::Notice& abort) const;

  std::vector<mpi::Notice> notices_;
  /// Ranks that have aborted, with their attempts.
  std::set<std::pair<std::uint64_t, std::uint64_t>> aborted_;
  /// What was decided: it does not change any more.
  std::optional<Verdict> cause_;
};

}  // namespace meshbus
