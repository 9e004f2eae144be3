#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/host/model/proc_state.h"
#include "agent/keeper/protocol.h"
#include "common/loop/reactor.h"
#include "wire/codes_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// Why a proc counts as failed when it ends, whatever way it ends.
struct Failure {
  wire::ErrorCode code = wire::ErrorCode::none;
  int os_error = 0;
  std::string text;
  wire::Cause cause = wire::Cause::none;
  /// Something else ended first, and this proc failed because of that.
  bool consequence = false;
};

/// The end of one proc, from its exit until nothing of it is left. Written by ProcEnding.
///
///     state     it means                                      entered by
///     exited    the RankState is an end (ProcState)           keeper::Exit, a failed start, a
///                                                             cancelled start, a stop given up
///     reported  the exit report is made and told              ProcEnding: the output is complete,
///                                                             at the latest 100 ms after the exit
///     empty     no descendant of the process is alive         keeper::Gone; the keeper is lost
///
/// A proc is exited first. Usually it is empty next, which completes its output, and then
/// reported; when descendants hold its pipes open, it is reported first. When it is all three it
/// is over: the rank may be restarted, and the record forgotten (is_over() of Proc).
class ProcExit {
 public:
  /// How the process ended; nothing: there is no end yet, or there was no process, or it is
  /// unknown.
  const std::optional<ProcEnd>& end() const noexcept { return end_; }
  /// What the keeper said about the end besides.
  const keeper::Exit& usage() const noexcept { return usage_; }
  const std::optional<Failure>& failure() const noexcept { return failure_; }
  bool is_reported() const noexcept { return is_reported_; }
  bool is_empty() const noexcept { return is_empty_; }
  /// Null: it is not made yet, or was forgotten.
  const wire::ExitReportT* report() const noexcept { return report_.get(); }

  void set_usage(const keeper::Exit& usage) { usage_ = usage; }
  void set_end(const ProcEnd& end) { end_ = end; }
  void set_empty() noexcept { is_empty_ = true; }
  /// The first failure counts.
  void fail(Failure failure) {
    if (!failure_) failure_ = std::move(failure);
  }
  /// Adds to the words of the failure, or is the failure.
  void add_failure(Failure failure) {
    if (failure_) {
      failure_->text += "; " + failure.text;
    } else {
      failure_ = std::move(failure);
    }
  }
  void set_report(std::unique_ptr<wire::ExitReportT> report) {
    report_ = std::move(report);
    is_reported_ = true;
  }
  /// The record is too old: the proc stays reported.
  void forget_report() noexcept { report_.reset(); }
  /// Takes over what another agent has written down.
  void restore(std::optional<Failure> failure, bool is_reported, bool is_empty) {
    failure_ = std::move(failure);
    is_reported_ = is_reported;
    is_empty_ = is_empty;
  }

  /// Makes the exit report at the latest; 0: the proc does not wait for its last output.
  Reactor::TimerId output_timer = 0;

 private:
  std::optional<ProcEnd> end_;
  keeper::Exit usage_;
  std::optional<Failure> failure_;
  bool is_reported_ = false;
  bool is_empty_ = false;
  std::unique_ptr<wire::ExitReportT> report_;
};

}  // namespace meshbus::host
