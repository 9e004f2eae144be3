#include "client/src/mpi/mpi_trouble.h"

#include <algorithm>

namespace meshbus {

using mpi::Notice;

void MpiTrouble::add(const Notice& notice) {
  notices_.push_back(notice);
}

MpiTrouble::Verdict MpiTrouble::verdict_of(const Notice& notice) {
  const auto rank = std::to_string(notice.rank);
  // A job that was aborted never looks like one that went well.
  const int code = (notice.code & 255) == 0 ? 1 : notice.code & 255;
  switch (notice.kind) {
    case Notice::Kind::abort:
      return {code, notice.rank,
              "MPI_Abort(" + std::to_string(notice.code) + ") by rank " + rank +
                  (notice.text.empty() ? "" : ": " + notice.text)};
    case Notice::Kind::refused:
      return {code, notice.rank,
              "rank " + rank + " called " + notice.text + ", which --mpi does not have",
              /*is_before_the_end=*/true};
    case Notice::Kind::never_begun:
      return {1, notice.rank,
              "rank " + rank +
                  " ended with exit 0 and has not called MPI_Init, where the others wait for it"};
    case Notice::Kind::unfinalized:
    case Notice::Kind::begun: break;
  }
  return {1, notice.rank,
          "rank " + rank +
              " ended with exit 0 between MPI_Init and MPI_Finalize, and the others "
              "would wait for it"};
}

std::optional<MpiTrouble::Verdict> MpiTrouble::decide(const std::vector<RankReport>& ranks,
                                                      bool may_restart) {
  if (cause_) return cause_;
  // Those that are in MPI_Init wait for all others.
  const auto is_waited_for = [&](const Notice& late) {
    return std::any_of(notices_.begin(), notices_.end(), [&](const Notice& notice) {
      return notice.kind == Notice::Kind::begun && notice.attempt == late.attempt &&
             notice.rank < ranks.size() && !ranks[notice.rank].is_terminal();
    });
  };
  const auto is_reason = [&](const Notice& notice) {
    if (notice.rank >= ranks.size() || notice.kind == Notice::Kind::begun) return false;
    const auto& rank = ranks[notice.rank];
    // What an attempt before has said is answered by its restart.
    if (rank.restarts != notice.attempt) return false;
    if (notice.kind == Notice::Kind::refused) return true;
    if (notice.kind == Notice::Kind::abort) return !may_restart;
    if (notice.kind == Notice::Kind::never_begun && !is_waited_for(notice)) return false;
    // A rank that has failed speaks for itself, and one that was stopped did what it was told.
    return rank.is_terminal() && !rank.is_failure() && rank.step == StopStep::none &&
           !rank.is_restarting;
  };
  const auto found = std::find_if(notices_.begin(), notices_.end(), is_reason);
  if (found != notices_.end()) cause_ = verdict_of(*found);
  return cause_;
}

bool MpiTrouble::end(const std::optional<RankReport>& first) {
  if (!first) return false;
  bool was_cause = false;
  std::erase_if(notices_, [&](const Notice& notice) {
    // MPI_Abort() of a program has a small one.
    const bool is_of_library =
        notice.kind == Notice::Kind::abort && (notice.code < 0 || notice.code > 255);
    if (!is_of_library || notice.rank == first->rank || notice.attempt != first->restarts)
      return false;
    was_cause = was_cause || (cause_ && cause_->rank == notice.rank &&
                              cause_->words == verdict_of(notice).words);
    return true;
  });
  if (was_cause) cause_.reset();
  return was_cause;
}

std::optional<MpiTrouble::Verdict> MpiTrouble::abort_of(const RankReport& failure) const {
  const auto found = std::find_if(notices_.rbegin(), notices_.rend(), [&](const Notice& notice) {
    return notice.rank == failure.rank && notice.attempt == failure.restarts &&
           notice.kind == Notice::Kind::abort;
  });
  return found == notices_.rend() ? std::nullopt : std::optional(verdict_of(*found));
}

std::optional<std::string> MpiTrouble::words_of(const RankReport& failure) const {
  const auto abort = abort_of(failure);
  return abort ? std::optional(abort->words) : std::nullopt;
}

std::string MpiTrouble::last_words(const std::optional<RankReport>& failure) const {
  auto words = cause_ ? std::optional(cause_->words) : std::nullopt;
  if (!words && failure) words = words_of(*failure);
  return words ? "meshbus: first cause: " + *words + "\n" : "";
}

}  // namespace meshbus
