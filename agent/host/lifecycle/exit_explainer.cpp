#include "agent/host/lifecycle/exit_explainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "agent/host/model/exit_report.h"
#include "agent/os/limit_places.h"

namespace meshbus::host {
namespace {

/// Ends of shared processes that are remembered: nearly as many as can end while exit reports wait
/// for output.
constexpr std::size_t kSharedEnds = 256;

EndFacts facts_of(const Proc& proc) {
  const keeper::Exit& usage = proc.exit.usage();
  EndFacts facts;
  facts.sent_signals = proc.stop.sent_signals();
  facts.cpu_time = std::chrono::microseconds(usage.user_us + usage.system_us);
  rlimit inherited{};
  if (::getrlimit(RLIMIT_CPU, &inherited) == 0) {
    facts.cpu_soft = inherited.rlim_cur;
    facts.cpu_hard = inherited.rlim_max;
  }
  const os::ProcSettings& settings = proc.mesh.spec.command.settings;
  for (const auto& limit : settings.limits) {
    if (limit.resource != RLIMIT_CPU) continue;
    facts.cpu_soft = limit.soft;
    facts.cpu_hard = limit.hard;
  }
  facts.memory_limit = os::words_of(settings.group, os::Controller::memory);
  facts.memory_kills = usage.memory_kills;
  facts.memory_limit_hit = usage.memory_limit_hit;
  return facts;
}

std::uint64_t count_of(std::int64_t value) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0));
}

}  // namespace

std::unique_ptr<wire::ExitReportT> ExitExplainer::report(const Proc& proc) {
  auto report = std::make_unique<wire::ExitReportT>();
  report->rank = proc.rank();
  explain(proc, *report);
  // A rank that was stopped may have failed at that; why is no news.
  const auto note = errors_.take(proc);
  if (!note.empty() && !proc.state.is_stop_asked() && report->reason != "exit 0")
    report->reason += ": " + note;
  const std::string tail = proc.output.err.tail.text();
  report->stderr_tail.assign(tail.begin(), tail.end());
  report->stopped_by = proc.stop.order().requester;
  report->stop_reason = proc.stop.order().reason;
  report->max_rss_bytes = count_of(proc.exit.usage().max_rss_kib) * 1024;
  report->user_us = count_of(proc.exit.usage().user_us);
  report->system_us = count_of(proc.exit.usage().system_us);
  if (proc.sample.seen.sampled_ns() != 0)
    report->usage = std::make_unique<wire::RankUsage>(proc.sample.seen);
  return report;
}

void ExitExplainer::explain(const Proc& proc, wire::ExitReportT& report) {
  if (const auto& failure = proc.exit.failure()) {
    report.reason = failure->text;
    report.code = failure->code;
    report.os_error = failure->os_error;
    report.cause = failure->cause;
    report.consequence = failure->consequence;
    return;
  }
  const StopOrder& order = proc.stop.order();
  if (!proc.exit.end()) {
    report.reason = "stopped before it was started";
    report.cause = order.cause;
  } else {
    explain_end(proc, *proc.exit.end(), report);
  }
  if (!proc.state.is_stop_asked()) return;
  report.because = order.because;
  report.consequence = order.because || order.cause != wire::Cause::stopped;
}

void ExitExplainer::explain_end(const Proc& proc, const ProcEnd& end, wire::ExitReportT& report) {
  EndFacts facts = facts_of(proc);
  const std::pair process(proc.state.to_wire().pid(), end.ended_ns);
  const auto told = shared_ends_.find(process);
  if (told == shared_ends_.end()) memory_.on_counted_elsewhere(facts.memory_kills);
  if (facts.memory_kills == 0 && is_unexplained_kill(end, facts)) {
    facts.out_of_memory = told == shared_ends_.end() ? memory_.take(end.ended_ns) : told->second;
    facts.memory_cgroup = memory_.cgroup();
  }
  if (proc.mesh.spec.procs_per_process > 1) {
    if (shared_ends_.size() == kSharedEnds) shared_ends_.erase(shared_ends_.begin());
    shared_ends_.emplace(process, facts.out_of_memory);
  }
  auto words = describe_end(end, facts);
  report.reason = std::move(words.text);
  report.cause = words.cause;
  if (!proc.state.is_stop_asked()) return;
  const bool is_killed =
      end.signaled && end.code == SIGKILL && proc.state.to_wire().step() == wire::StopStep::kill;
  const bool had_grace = proc.stop.has_sent(SIGTERM);
  const auto cause = proc.stop.order().cause;
  report.cause = is_killed && had_grace && cause == wire::Cause::stopped
                     ? wire::Cause::killed_after_grace
                     : cause;
}

}  // namespace meshbus::host
