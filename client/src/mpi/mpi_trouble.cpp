#include "client/src/mpi/mpi_trouble.h"

#include <algorithm>
#include <chrono>

namespace meshbus {

using mpi::Notice;

namespace {

/// Helpers of busy hosts tell late what they see.
constexpr std::uint64_t kSpreadUs = 1'000'000;

/// Whether MPI libraries abort with that code when they lose the other end. MPICH: below 0 or above
/// 255; Open MPI 5: MPI_ERR_UNKNOWN, MPI_ERR_PROC_FAILED, MPI_ERR_PROC_FAILED_PENDING.
bool is_of_library(int code) {
  return code < 0 || code > 255 || code == 14 || code == 75 || code == 76;
}

std::uint64_t time_us(std::chrono::system_clock::time_point time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count());
}

/// Whether the rank has ended by nothing that it did itself, and by no order.
bool is_taken_away(const RankReport& rank) {
  if (rank.step != StopStep::none) return false;
  return rank.state == ProcState::killed ||
         (rank.state == ProcState::failed &&
          (rank.cause == Cause::host_lost || rank.cause == Cause::keeper_lost));
}

}  // namespace

void MpiTrouble::add(const Notice& notice) {
  notices_.push_back(notice);
  if (notice.kind == Notice::Kind::abort) aborted_.emplace(notice.rank, notice.attempt);
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
    // The rank of a library's abort is about to end, and why is perhaps on its way.
    if (notice.kind == Notice::Kind::abort)
      return !may_restart && (rank.is_terminal() || !is_of_library(notice.code)) &&
             !follows_an_end(notice, ranks);
    if (notice.kind == Notice::Kind::never_begun && !is_waited_for(notice)) return false;
    // A rank that has failed speaks for itself, and one that was stopped did what it was told.
    return rank.is_terminal() && !rank.is_failure() && rank.step == StopStep::none &&
           !rank.is_restarting;
  };
  if (const auto* const first = earliest(is_reason)) cause_ = verdict_of(*first);
  return cause_;
}

std::optional<MpiTrouble::Time> MpiTrouble::waits_until(const std::vector<RankReport>& ranks,
                                                        Time now) {
  const bool has_library_end = std::any_of(ranks.begin(), ranks.end(), [&](const RankReport& rank) {
    return rank.is_terminal() && is_ended_by_library(rank);
  });
  if (!has_library_end) {
    waits_since_.reset();
    return std::nullopt;
  }
  if (!waits_since_) waits_since_ = now;
  const auto end = *waits_since_ + kCauseLimit;
  const bool runs = std::any_of(ranks.begin(), ranks.end(),
                                [](const RankReport& rank) { return !rank.is_terminal(); });
  return runs && now < end && !has_cause(ranks) ? std::optional(end) : std::nullopt;
}

bool MpiTrouble::has_cause(const std::vector<RankReport>& ranks) const {
  const bool has_ended = std::any_of(ranks.begin(), ranks.end(), [&](const RankReport& rank) {
    return rank.is_terminal() && !is_ended_by_library(rank) &&
           (rank.is_failure() || rank.step != StopStep::none);
  });
  return has_ended || std::any_of(notices_.begin(), notices_.end(), [&](const Notice& notice) {
           if (notice.rank >= ranks.size() || ranks[notice.rank].restarts != notice.attempt)
             return false;
           const auto& rank = ranks[notice.rank];
           switch (notice.kind) {
             case Notice::Kind::abort: return !is_of_library(notice.code);
             case Notice::Kind::refused: return true;
             case Notice::Kind::unfinalized:
             case Notice::Kind::never_begun: return rank.is_terminal() && !rank.is_failure();
             case Notice::Kind::begun: break;
           }
           return false;
         });
}

const Notice* MpiTrouble::abort_by(const RankReport& rank) const {
  return earliest([&](const Notice& notice) {
    return notice.kind == Notice::Kind::abort && notice.rank == rank.rank &&
           notice.attempt == rank.restarts;
  });
}

bool MpiTrouble::is_ended_by_library(const RankReport& rank) const {
  const auto* const abort = abort_by(rank);
  if (abort != nullptr) return is_of_library(abort->code);
  return rank.state == ProcState::stopped && is_of_library(rank.exit_code);
}

const Notice* MpiTrouble::earliest(const std::function<bool(const Notice&)>& is_meant) const {
  const Notice* first = nullptr;
  for (const auto& notice : notices_) {
    if ((first == nullptr || notice.time_us < first->time_us) && is_meant(notice)) first = &notice;
  }
  return first;
}

bool MpiTrouble::follows_an_end(const Notice& abort, const std::vector<RankReport>& ranks) const {
  return std::any_of(notices_.begin(), notices_.end(), [&](const Notice& left) {
    if (left.kind != Notice::Kind::unfinalized || left.attempt != abort.attempt ||
        left.rank == abort.rank || left.rank >= ranks.size())
      return false;
    const auto spread =
        is_of_library(abort.code) && !aborted_.contains({left.rank, left.attempt}) ? kSpreadUs : 0;
    const auto& rank = ranks[left.rank];
    if (rank.restarts != abort.attempt || left.time_us >= abort.time_us + spread) return false;
    // How it has ended may not be known yet: then the abort waits for that.
    return !rank.is_terminal() || rank.step == StopStep::none;
  });
}

bool MpiTrouble::follows_an_abort(const Notice& abort) const {
  if (!is_of_library(abort.code)) return false;
  return std::any_of(notices_.begin(), notices_.end(), [&](const Notice& own) {
    return own.kind == Notice::Kind::abort && own.attempt == abort.attempt &&
           own.rank != abort.rank && !is_of_library(own.code) &&
           own.time_us < abort.time_us + kSpreadUs;
  });
}

std::optional<RankReport> MpiTrouble::first_failure(const std::vector<RankReport>& ranks,
                                                    const std::optional<RankReport>& first) const {
  if (!first || !is_ended_by_library(*first)) return first;
  const auto* const abort = abort_by(*first);
  const auto lost_us = abort != nullptr ? abort->time_us
                       : first->ended   ? time_us(*first->ended)
                                        : 0;
  const RankReport* cause = nullptr;
  std::uint64_t cause_us = lost_us + kSpreadUs;
  const auto consider = [&](const RankReport& rank, std::uint64_t at) {
    if (rank.restarts != first->restarts || at >= cause_us ||
        aborted_.contains({rank.rank, rank.restarts}))
      return;
    cause = &rank;
    cause_us = at;
  };
  for (const auto& rank : ranks) {
    if (is_taken_away(rank)) consider(rank, rank.ended ? time_us(*rank.ended) : lost_us);
  }
  for (const auto& notice : notices_) {
    if (notice.kind != Notice::Kind::unfinalized || notice.rank >= ranks.size() ||
        notice.attempt != first->restarts)
      continue;
    // An order to stop may have come while its library was busy.
    const auto& rank = ranks[notice.rank];
    if (rank.state == ProcState::stopped && rank.exit_code != 0 && !is_of_library(rank.exit_code))
      consider(rank, notice.time_us);
  }
  return cause != nullptr ? std::optional(*cause) : first;
}

bool MpiTrouble::end(const std::vector<RankReport>& ranks, const std::optional<RankReport>& first) {
  bool was_cause = false;
  const auto is_consequence = [&](const Notice& notice) {
    if (notice.kind != Notice::Kind::abort) return false;
    return (is_of_library(notice.code) && first && notice.rank != first->rank &&
            notice.attempt == first->restarts) ||
           follows_an_end(notice, ranks) || follows_an_abort(notice);
  };
  std::vector<Notice> kept;
  for (const auto& notice : notices_) {
    if (!is_consequence(notice))
      kept.push_back(notice);
    else if (cause_ && cause_->rank == notice.rank && cause_->words == verdict_of(notice).words)
      was_cause = true;
  }
  notices_ = std::move(kept);
  if (was_cause) cause_.reset();
  return was_cause;
}

std::optional<MpiTrouble::Verdict> MpiTrouble::abort_of(const RankReport& failure) const {
  const auto* const first = earliest([&](const Notice& notice) {
    return notice.attempt == failure.restarts && notice.kind == Notice::Kind::abort;
  });
  if (first == nullptr) return std::nullopt;
  const bool is_library_end = is_of_library(failure.exit_code) && failure.ended &&
                              time_us(*failure.ended) >= first->time_us;
  // end() may have taken its notice away, since its abort follows from the other one.
  if (!is_library_end && !aborted_.contains({failure.rank, failure.restarts})) return std::nullopt;
  return verdict_of(*first);
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
