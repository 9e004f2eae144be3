#include "client/src/monitors/rank_table.h"

#include <algorithm>
#include <map>

#include "client/src/base/wire_reports.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

bool ended_before(const RankReport& a, const RankReport& b) {
  // What has no time (never started, by an old agent) comes last: it cannot be shown to be the
  // cause.
  if (a.ended.has_value() != b.ended.has_value()) return a.ended.has_value();
  if (a.ended != b.ended) return a.ended < b.ended;
  return a.rank < b.rank;
}

}  // namespace

RankTable::RankTable(const ProcMeshRef& mesh)
    : alive_on_(mesh.hosts().size()), unreported_on_(mesh.hosts().size()) {
  grow(mesh);
}

void RankTable::place_ranks(const ProcMeshRef& mesh, std::uint64_t first) {
  hosts_ = mesh.hosts();
  const auto extent = mesh.region().extent();
  for (std::uint64_t rank = 0; rank < ranks_.size(); ++rank) {
    auto& report = ranks_[rank];
    report.rank = rank;
    report.host_index = mesh.host_index_of(rank).value_or(0);
    // One that has ended may have done so on a host that was lost.
    if (rank >= first) report.host = mesh.hosts()[report.host_index];
    if (const auto ordinal = mesh.region().ordinal_of(rank)) {
      if (const auto point = extent.point_of(*ordinal)) report.point = point->to_string();
    }
  }
}

void RankTable::grow(const ProcMeshRef& mesh) {
  const auto before = ranks_.size();
  ranks_.resize(mesh.root_ranks());
  extra_.resize(mesh.root_ranks());
  alive_on_.resize(mesh.hosts().size());
  unreported_on_.resize(mesh.hosts().size());
  place_ranks(mesh, before);
  for (std::uint64_t rank = before; rank < ranks_.size(); ++rank) {
    ++alive_on_[ranks_[rank].host_index];
    ++unreported_on_[ranks_[rank].host_index];
  }
}

std::vector<RankReport> RankTable::shrink(const ProcMeshRef& mesh) {
  const auto after = mesh.root_ranks();
  std::vector<RankReport> gone;
  for (std::uint64_t rank = after; rank < ranks_.size(); ++rank) {
    const auto& extra = extra_[rank];
    if (ranks_[rank].is_terminal()) --ended_;
    if (extra.is_started) --started_;
    if (extra.is_created) --created_;
    if (extra.has_exit_report) --exit_reports_;
    gone.push_back(ranks_[rank]);
    add_previous(std::move(ranks_[rank]));
  }
  ranks_.resize(after);
  extra_.resize(after);
  alive_on_.resize(mesh.hosts().size());
  unreported_on_.resize(mesh.hosts().size());
  std::erase_if(untold_, [after](std::uint64_t rank) { return rank >= after; });
  if (decided_ && *decided_ >= after) decided_.reset();
  place_ranks(mesh, after);
  return gone;
}

void RankTable::add_previous(RankReport report) {
  previous_.push_back(std::move(report));
  if (previous_.size() > kMostPrevious) previous_.pop_front();
}

void RankTable::note_progress(std::uint64_t rank, Time now) {
  const auto& report = ranks_[rank];
  auto& extra = extra_[rank];
  if (!extra.is_started && report.state != ProcState::unknown &&
      report.state != ProcState::starting) {
    extra.is_started = true;
    if (++started_ == ranks_.size()) all_started_ = now;
  }
  if (!extra.is_created && (report.state == ProcState::ready || is_done(report))) {
    extra.is_created = true;
    ++created_;
  }
}

RankTable::Time RankTable::due_of(std::uint64_t rank) const {
  const auto& extra = extra_[rank];
  if (is_ended() && exit_reports_ == ranks_.size()) return *extra.ended;
  const auto latest = *extra.ended + kFailureLimit;
  if (!extra.has_exit_report || !all_started_) return latest;
  return std::min(latest, *all_started_ + kStartLimit);
}

void RankTable::on_end(std::uint64_t rank, Time now) {
  extra_[rank].ended = now;
  last_end_ = now;
  ++ended_;
  --alive_on_[ranks_[rank].host_index];
  if (ranks_[rank].is_failure()) untold_.push_back(rank);
}

RankTable::Changes RankTable::apply(const HostAddr& from, const Update& update, Time now,
                                    bool with_reports) {
  Changes changes;
  const auto size_of = [](const auto* list) { return list == nullptr ? 0 : list->size(); };
  for (flatbuffers::uoffset_t i = 0; i < size_of(update.launch); ++i)
    apply(from, *update.launch->Get(i));
  std::vector<std::uint64_t> ended;
  for (flatbuffers::uoffset_t i = 0; i < size_of(update.ranks); ++i) {
    const auto& state = *update.ranks->Get(i);
    if (!apply(from, state, now)) continue;
    changes.is_news = true;
    const auto& report = ranks_[state.rank()];
    if (report.is_terminal()) ended.push_back(report.rank);
    if (!with_reports) continue;
    changes.reports.push_back(report);
    // The launch times are those of a later change in this message: a rank that is not up has none.
    if (report.state == ProcState::starting || report.state == ProcState::running)
      changes.reports.back().launch = {};
  }
  for (flatbuffers::uoffset_t i = 0; i < size_of(update.exit_reports); ++i)
    changes.is_news = apply(from, *update.exit_reports->Get(i)) || changes.is_news;
  // An end is the last change of its rank, so the table has it, and its exit report.
  for (auto& report : changes.reports) {
    if (report.is_terminal()) report = ranks_[report.rank];
  }
  for (const auto rank : ended) changes.ended.push_back(ranks_[rank]);
  return changes;
}

bool RankTable::apply(const HostAddr& from, const wire::RankState& state, Time now) {
  const auto rank = state.rank();
  if (rank >= ranks_.size() || ranks_[rank].host != from) return false;
  auto& report = ranks_[rank];
  const bool is_next = follows_restarts_ && state.restarts() > report.restarts;
  if (is_next && state.generation() > report.generation) begin_incarnation(rank);
  if (report.is_terminal() || state.generation() <= report.generation) return false;
  copy_state(state, report);
  note_progress(rank, now);
  if (report.is_terminal()) on_end(rank, now);
  return true;
}

bool RankTable::apply(const HostAddr& from, const wire::ExitReport& exit_report) {
  const auto rank = exit_report.rank();
  if (rank >= ranks_.size() || ranks_[rank].host != from) return false;
  auto& extra = extra_[rank];
  if (!ranks_[rank].is_terminal() || extra.has_exit_report) return false;
  copy_exit_report(exit_report, ranks_[rank]);
  extra.has_exit_report = true;
  ++exit_reports_;
  --unreported_on_[ranks_[rank].host_index];
  return true;
}

void RankTable::apply(const HostAddr& from, const wire::LaunchTimes& times) {
  const auto rank = times.rank();
  if (rank < ranks_.size() && ranks_[rank].host == from) ranks_[rank].launch = to_report(times);
}

bool RankTable::apply(const HostAddr& from, const wire::RankTrouble& trouble,
                      const wire::StuckHandlerT* stuck) {
  const auto rank = trouble.rank();
  if (rank >= ranks_.size() || ranks_[rank].host != from) return false;
  const auto before = ranks_[rank].trouble;
  copy_trouble(trouble, ranks_[rank], stuck);
  return ranks_[rank].trouble != before;
}

std::vector<RankReport> RankTable::lose(std::uint64_t host_index, const std::string& reason,
                                        Time now, std::chrono::system_clock::time_point ended) {
  std::vector<RankReport> changed;
  if (host_index >= unreported_on_.size() || unreported_on_[host_index] == 0) return changed;
  for (auto& report : ranks_) {
    if (report.host_index != host_index) continue;
    auto& extra = extra_[report.rank];
    if (!extra.has_exit_report) {
      // No agent is left that could write one.
      extra.has_exit_report = true;
      ++exit_reports_;
      --unreported_on_[host_index];
    }
    if (report.is_terminal()) continue;
    report.state = ProcState::failed;
    report.trouble = Trouble::none;
    report.trouble_reason.clear();
    report.trouble_since.reset();
    report.code = ErrorCode::host_unreachable;
    report.cause = Cause::host_lost;
    report.consequence = true;
    report.reason = reason;
    report.ended = ended;
    note_progress(report.rank, now);
    on_end(report.rank, now);
    changed.push_back(report);
  }
  return changed;
}

void RankTable::decide(std::uint64_t rank) {
  if (!decided_) decided_ = rank;
}

void RankTable::retell(std::uint64_t rank) {
  const bool is_in = std::find(untold_.begin(), untold_.end(), rank) != untold_.end();
  if (ranks_[rank].is_failure() && !is_in) untold_.push_back(rank);
}

bool RankTable::is_over(std::uint64_t rank, Time now) const {
  const auto& extra = extra_[rank];
  return extra.ended && (extra.has_exit_report || now - *extra.ended >= kExitReportLimit);
}

void RankTable::begin_incarnation(std::uint64_t rank) {
  auto& report = ranks_[rank];
  auto& extra = extra_[rank];
  if (!report.is_terminal()) return;
  RankReport next;
  next.rank = rank;
  next.host_index = report.host_index;
  next.host = report.host;
  next.point = report.point;
  next.generation = report.generation;
  next.restarts = report.restarts + 1;
  next.state = ProcState::starting;
  add_previous(std::exchange(report, std::move(next)));
  previous_.back().is_restarting = true;
  --ended_;
  ++alive_on_[report.host_index];
  ++unreported_on_[report.host_index];
  if (extra.has_exit_report) {
    --exit_reports_;
  } else {
    --unreported_on_[report.host_index];
  }
  extra.ended.reset();
  extra.has_exit_report = false;
  std::erase(untold_, rank);
}

void RankTable::move_in(std::uint64_t rank) {
  auto& report = ranks_[rank];
  report.host = home_of(rank);
  // The host counts from the beginning.
  report.generation = 0;
}

void RankTable::cancel_incarnation(std::uint64_t rank, Time now) {
  const auto former = std::find_if(previous_.rbegin(), previous_.rend(),
                                   [rank](const RankReport& life) { return life.rank == rank; });
  if (former == previous_.rend() || ranks_[rank].is_terminal()) return;
  ranks_[rank] = std::move(*former);
  previous_.erase(std::next(former).base());
  ranks_[rank].is_restarting = false;
  extra_[rank].has_exit_report = true;
  ++exit_reports_;
  --unreported_on_[ranks_[rank].host_index];
  on_end(rank, now);
}

void RankTable::fail_incarnation(std::uint64_t rank, const Error& error, Time now,
                                 std::chrono::system_clock::time_point ended) {
  auto& report = ranks_[rank];
  if (report.is_terminal()) return;
  report.state = ProcState::failed;
  report.is_restarting = false;
  report.code = error.code();
  report.cause = Cause::spawn_failed;
  report.reason = "cannot be started anew: " + error.to_string();
  report.ended = ended;
  auto& extra = extra_[rank];
  extra.has_exit_report = true;
  ++exit_reports_;
  --unreported_on_[report.host_index];
  on_end(rank, now);
}

std::vector<RankReport> RankTable::take_failures(Time now) {
  std::vector<RankReport> due;
  std::erase_if(untold_, [&](std::uint64_t rank) {
    if (is_held(rank) || now < due_of(rank)) return false;
    due.push_back(ranks_[rank]);
    return true;
  });
  std::sort(due.begin(), due.end(), ended_before);
  told_ += due.size();
  return due;
}

std::optional<RankTable::Time> RankTable::next_due(Time now) const {
  std::optional<Time> next;
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  for (const auto rank : untold_) {
    if (!is_held(rank)) consider(due_of(rank));
  }
  if (is_ended() && last_end_ && !has_exit_reports(now)) consider(*last_end_ + kExitReportLimit);
  return next;
}

std::optional<RankReport> RankTable::end_of(std::uint64_t rank) const {
  if (rank < ranks_.size())
    return ranks_[rank].is_terminal() ? std::optional(ranks_[rank]) : std::nullopt;
  const auto last = std::find_if(previous_.rbegin(), previous_.rend(),
                                 [rank](const RankReport& life) { return life.rank == rank; });
  if (last != previous_.rend()) return *last;
  // It went so long ago that its report was forgotten.
  RankReport gone;
  gone.rank = rank;
  gone.state = ProcState::stopped;
  gone.reason = "the mesh has no such rank any more";
  return gone;
}

bool RankTable::has_exit_reports(Time now) const noexcept {
  if (!is_ended()) return false;
  return exit_reports_ == ranks_.size() || !last_end_ || now - *last_end_ >= kExitReportLimit;
}

std::vector<std::uint64_t> RankTable::not_ended(const RankSet& set) const {
  std::vector<std::uint64_t> list;
  for (const auto& report : ranks_) {
    if (!report.is_terminal() && (set.empty() || contains(set, report.rank)))
      list.push_back(report.rank);
  }
  return list;
}

std::vector<RankReport> RankTable::failures() const {
  std::vector<RankReport> list;
  for (const auto& report : ranks_) {
    if (report.is_failure()) list.push_back(report);
  }
  std::sort(list.begin(), list.end(), ended_before);
  return list;
}

MeshOutcome RankTable::outcome() const {
  MeshOutcome outcome;
  outcome.ranks = ranks_;
  outcome.former_lives.assign(previous_.begin(), previous_.end());
  if (is_judged_) {
    if (decided_) outcome.first_failure = ranks_[*decided_];
    return outcome;
  }
  if (const auto all = failures(); !all.empty()) outcome.first_failure = all.front();
  return outcome;
}

std::shared_ptr<const std::vector<RankReport>> RankTable::reports_of(
    const std::vector<std::uint64_t>& ranks) const {
  auto reports = std::make_shared<std::vector<RankReport>>();
  for (const auto number : ranks) reports->push_back(rank(number));
  return reports;
}

std::string RankTable::describe(const std::vector<std::uint64_t>& ranks) const {
  constexpr std::size_t in_words = 8;
  struct Alike {
    std::string first;  // the first of them, whole
    std::vector<std::uint64_t> others;
  };
  std::vector<Alike> groups;
  std::map<std::string, std::size_t> group_of;  // by words
  std::vector<std::uint64_t> rest;
  for (const auto number : ranks) {
    // "unknown" is what a report says; here it means that no word has come since the order was
    // sent.
    auto report = ranks_[number];
    if (report.state == ProcState::unknown && report.reason.empty())
      report.reason = "not heard of yet";
    auto words = report.words();
    if (report.pid != 0 && !report.is_terminal()) words += ", pid " + std::to_string(report.pid);
    const auto [found, is_new] = group_of.try_emplace(std::move(words), groups.size());
    if (!is_new) {
      groups[found->second].others.push_back(number);
    } else if (groups.size() < in_words) {
      report.reason = found->first;
      groups.push_back({report.describe(), {}});
    } else {
      group_of.erase(found);
      rest.push_back(number);
    }
  }
  std::string text;
  for (const auto& group : groups) {
    text += (text.empty() ? "" : "; ") + group.first;
    if (!group.others.empty())
      text += "; rank" + std::string(group.others.size() == 1 ? " " : "s ") +
              to_string(to_rank_set(group.others)) + ": the same";
  }
  if (!rest.empty())
    text += "; and " + std::to_string(rest.size()) + " more: ranks " + to_string(to_rank_set(rest));
  return text;
}

}  // namespace meshbus
