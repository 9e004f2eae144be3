#include "cli/run/job_role.h"

#include <cerrno>
#include <cstring>

#include "cli/run/job_plan.h"
#include "cli/run/run_report.h"
#include "cli/support/exit_codes.h"

namespace meshbus::cli {

using std::chrono::milliseconds;

bool is_host_lost(const RankReport& rank) {
  return rank.cause == Cause::host_lost || rank.cause == Cause::keeper_lost ||
         rank.cause == Cause::frozen;
}

JobRole::JobRole(const RunArguments& run, std::size_t number, const EventBell& bell)
    : arguments_(run.roles[number]),
      name_(run.has_roles ? mesh_name(run.roles[number]) : std::string()),
      events_(bell) {}

std::string JobRole::rank_name(std::uint64_t rank) const {
  return name_.empty() ? "rank " + std::to_string(rank) : name_ + "[" + std::to_string(rank) + "]";
}

void JobRole::release(Time at) {
  const auto failure = is_up_ ? known().first_failure : std::nullopt;
  is_released_ = is_released_ || !failure || (at && failure->ended && *failure->ended > *at);
}

JobOrder::State JobRole::state() const {
  using State = JobOrder::State;
  if (!is_up_) return State::waiting;
  if (events_.is_ended()) {
    if (known().first_failure || events_.first_stopped()) return State::failed;
    const bool was_ready =
        arguments_.ready_text.empty() || events_.num_ready() >= parts_.mesh->size();
    return was_ready ? State::done : State::unready;
  }
  return events_.num_ready() >= parts_.mesh->size() ? State::ready : State::started;
}

void JobRole::take_notices() {
  for (const auto& notice : events_.take_notices()) mpi_.add(notice);
}

RoleOutcome JobRole::outcome() {
  RoleOutcome outcome{.name = name_};
  if (!is_up_) return outcome;
  outcome.mesh = parts_.mesh->ref();
  outcome.ranks = known();
  if (parts_.mpi) {
    take_notices();
    outcome.ranks.first_failure =
        mpi_.first_failure(outcome.ranks.ranks, outcome.ranks.first_failure);
  }
  if (is_released_) outcome.ranks.first_failure.reset();
  outcome.bindings = parts_.mesh->bindings();
  return outcome;
}

std::optional<JobRole::Trouble> JobRole::find_trouble() {
  due_.reset();
  if (parts_.mpi) {
    take_notices();
    due_ = mpi_.waits_until(known().ranks, std::chrono::steady_clock::now());
    if (!due_) {
      if (auto trouble = find_mpi_trouble()) return trouble;
    }
  }
  if (auto failure = events_.failure(); failure && !due_ && !arguments_.keep_going) {
    if (parts_.mpi) failure = mpi_.first_failure(known().ranks, failure);
    if (const auto abort = mpi_.abort_of(*failure))
      return Trouble{.code = {}, .words = abort->words, .rank = abort->rank};
    return Trouble{.code = {},
                   .words = rank_name(failure->rank) + " failed: " + failure->words(),
                   .rank = failure->rank};
  }
  if (const int error = events_.output_error(); error != 0)
    return Trouble{.code = error == EPIPE ? kBrokenPipe : kOwnFailure,
                   .words = error == EPIPE ? "nobody reads the output"
                                           : std::string("the output cannot be written: ") +
                                                 std::strerror(error),
                   .rank = {}};
  if (auto lost = events_.input_error(); !lost.empty())
    return Trouble{.code = kOwnFailure, .words = std::move(lost), .rank = {}};
  if (const auto rank = events_.first_stopped(); rank && !arguments_.keep_going)
    return Trouble{.code = kStopped,
                   .words = rank_name(*rank) + " was stopped" + kStoppedElsewhere,
                   .rank = {},
                   .is_stopped_elsewhere = true};
  return std::nullopt;
}

std::optional<JobRole::Trouble> JobRole::find_mpi_trouble() {
  const auto prefix = name_.empty() ? std::string() : name_ + ": ";
  if (const auto trouble = mpi_.decide(known().ranks, may_restart()))
    return Trouble{.code = trouble->code, .words = prefix + trouble->words, .rank = trouble->rank};
  if (const auto helper = events_.lost_helper(); helper && !is_host_lost(*helper))
    return Trouble{.code = kOwnFailure,
                   .words = prefix + "the MPI helper on " + helper->host.to_string() +
                            " has ended: " + helper->words(),
                   .rank = {}};
  return std::nullopt;
}

std::optional<int> JobRole::code_after_end(const MeshOutcome& outcome, int code, bool is_own) {
  if (!parts_.mpi) return std::nullopt;
  parts_.mpi->stop(*parts_.mpi_hosts);
  take_notices();
  if (is_released_) return std::nullopt;
  const bool was_consequence = mpi_.end(outcome.ranks, outcome.first_failure);
  // Nothing is restarted any more.
  const auto trouble = mpi_.decide(outcome.ranks, /*may_restart=*/false);
  if (was_consequence && trouble) return trouble->code;
  if (outcome.first_failure && !is_own) {
    // A library that was refused a call aborts because of that.
    if (trouble && trouble->is_before_the_end && outcome.first_failure->rank == trouble->rank)
      return trouble->code;
    // The end of a rank that aborts may be heard of before its notice.
    if (const auto abort = mpi_.abort_of(*outcome.first_failure)) return abort->code;
  }
  if (was_consequence && outcome.first_failure) return outcome.first_failure->shell_code();
  return trouble && code == 0 ? std::optional(trouble->code) : std::nullopt;
}

void JobRole::request_stop(const std::string& reason, bool at_once,
                           std::optional<std::uint64_t> because) {
  events_.stopping();
  parts_.mesh->request_stop({.reason = reason,
                             .grace = at_once ? milliseconds(0) : parts_.grace,
                             .deadline = {},
                             .ranks = {},
                             .because = because});
}

}  // namespace meshbus::cli
