#pragma once

#include <chrono>
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

  using Time = std::chrono::steady_clock::time_point;
  /// How long a stop waits for the cause of a library's abort: the rank that it has lost may be
  /// busy with its end, and be heard of later. A starved machine needs some 100 ms.
  static constexpr std::chrono::milliseconds kCauseLimit{500};

  void add(const mpi::Notice& notice);
  /// Until when to wait with decide(), and with a stop for a rank that has failed: all that went
  /// wrong is that libraries have aborted, and others still run. Nothing: there is no need to.
  std::optional<Time> waits_until(const std::vector<RankReport>& ranks, Time now);
  /// The first reason to stop that is not left to the end of the rank itself. `ranks` are the
  /// reports of all. With `may_restart` the end of a rank that has aborted is for the
  /// RestartPolicy.
  std::optional<Verdict> decide(const std::vector<RankReport>& ranks, bool may_restart);
  /// What really failed first when `first` is a rank whose library has aborted: the rank that left
  /// without an abort of its own, or was killed, or was lost with its host. It may end later, since
  /// its library takes its time, or be reaped later. Else `first`.
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
  /// The abort of that life of the rank; nullptr = it has not called MPI_Abort.
  const mpi::Notice* abort_by(const RankReport& rank) const;
  /// Whether its library has ended it, because of another rank.
  bool is_ended_by_library(const RankReport& rank) const;
  /// Whether something else than a library's abort is known that ends the job.
  bool has_cause(const std::vector<RankReport>& ranks) const;
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
  /// When a library's abort was the only thing known that went wrong.
  std::optional<Time> waits_since_;
  /// What was decided: it does not change any more.
  std::optional<Verdict> cause_;
};

}  // namespace meshbus
