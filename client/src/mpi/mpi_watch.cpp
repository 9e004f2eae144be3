#include "client/src/mpi/mpi_watch.h"

#include <utility>

namespace meshbus {
namespace {

/// The exit code of `run` for a fault that is no rank's.
constexpr int kNoRanksFault = 125;

JobTrouble trouble_of(const MpiTrouble::Verdict& verdict) {
  return {.code = verdict.code, .words = verdict.words, .rank = verdict.rank};
}

}  // namespace

void MpiWatch::attach(Mesh mesh) {
  {
    const std::lock_guard lock(mutex_);
    mesh_ = std::move(mesh);
  }
  judge();
}

void MpiWatch::on_notice(const mpi::Notice& notice) {
  {
    const std::lock_guard lock(mutex_);
    trouble_.add(notice);
    has_notices_ = true;
  }
  judge();
}

void MpiWatch::on_lost_helper(const RankReport& helper) {
  const std::string words =
      "the MPI helper on " + helper.host.to_string() + " has ended: " + helper.reason;
  std::optional<Mesh> mesh;
  {
    const std::lock_guard lock(mutex_);
    // A lost host is told of by its ranks.
    if (verdict_ || helper.cause == Cause::host_lost) return;
    verdict_ = JobTrouble{.code = kNoRanksFault, .words = words};
    mesh = mesh_;
  }
  if (!mesh) return;
  mesh->note(JobTrouble{.code = kNoRanksFault, .words = words});
  mesh->stop({.reason = words});
}

void MpiWatch::on_failure(const RankReport& rank) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = rank;
  }
  judge();
}

void MpiWatch::on_time() {
  {
    const std::lock_guard lock(mutex_);
    is_waiting_ = false;
  }
  judge();
}

void MpiWatch::on_state() {
  judge();
}

void MpiWatch::on_end(MeshOutcome& outcome) {
  std::optional<Mesh> mesh;
  {
    const std::lock_guard lock(mutex_);
    outcome.first_failure = trouble_.first_failure(outcome.ranks, outcome.first_failure);
    if (trouble_.end(outcome.ranks, outcome.first_failure)) verdict_.reset();
    // The end of a rank that aborts may be heard of before its notice, and nothing is restarted
    // now.
    if (!verdict_) {
      auto found = trouble_.decide(outcome.ranks, /*may_restart=*/false);
      if (!found && outcome.first_failure) found = trouble_.abort_of(*outcome.first_failure);
      if (found) verdict_ = trouble_of(*found);
    }
    outcome.trouble = verdict_;
    mesh = mesh_;
  }
  if (mesh) mesh->note(outcome.trouble);
  if (job_) job_->request_stop();
}

void MpiWatch::judge() {
  std::optional<Mesh> mesh;
  {
    const std::lock_guard lock(mutex_);
    if (verdict_ || !mesh_ || (!has_notices_ && !failure_)) return;
    mesh = mesh_;
  }
  const auto known = mesh->known();
  std::optional<JobTrouble> trouble;
  StopOptions stop;
  {
    const std::lock_guard lock(mutex_);
    if (verdict_) return;
    const auto now = std::chrono::steady_clock::now();
    if (const auto until = trouble_.waits_until(known.ranks, now)) {
      if (!std::exchange(is_waiting_, true))
        mesh->call_later(std::chrono::ceil<std::chrono::milliseconds>(*until - now));
      return;
    }
    if (const auto found = trouble_.decide(known.ranks, may_restart_)) {
      trouble = verdict_ = trouble_of(*found);
      stop.reason = found->words;
      stop.because = found->rank;
    } else if (failure_ && !std::exchange(has_stopped_, true)) {
      const auto first = trouble_.first_failure(known.ranks, failure_).value_or(*failure_);
      stop.reason = "rank " + std::to_string(first.rank) + " has failed: " + first.words();
      stop.because = first.rank;
    } else {
      return;
    }
  }
  if (trouble) mesh->note(trouble);
  mesh->stop(stop);
}

}  // namespace meshbus
