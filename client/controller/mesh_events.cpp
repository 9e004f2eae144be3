#include "client/controller/mesh_events.h"

#include <algorithm>

#include "client/src/base/wire_reports.h"
#include "common/wire/control.h"
#include "wire/supervision_generated.h"

namespace meshbus {

WatchEvent MeshEvents::make(WatchEvent::Kind kind, const HostAddr& host) const {
  WatchEvent event;
  event.kind = kind;
  event.mesh = mesh_;
  event.host = host;
  event.region = region_;
  event.generation = queue_.generation();
  return event;
}

WatchEvent MeshEvents::make(const HostAddr& host, const wire::RankState& rank,
                            std::shared_ptr<const wire::ExitReportT> exit_report) const {
  auto event = make(WatchEvent::Kind::state, host);
  event.rank = rank;
  event.exit_report = std::move(exit_report);
  return event;
}

void MeshEvents::add_host(const HostAddr& host, bool is_silent, const std::string& problem) {
  if (queue_.is_complete()) return;
  using Kind = WatchEvent::Kind;
  auto event = make(is_silent ? Kind::host_unreachable : Kind::host_back, host);
  event.problem = problem;
  queue_.add(std::move(event));
}

void MeshEvents::add_resize(const HostAddr& host, std::uint64_t before, std::uint64_t after) {
  auto event = make(WatchEvent::Kind::resized, host);
  event.ranks = {{std::min(before, after), std::max(before, after)}};
  event.went = after < before;
  event.problem = "it has " + std::to_string(after) + " ranks now: " + to_string(event.ranks) +
                  (event.went ? " are gone" : " came");
  queue_.add(std::move(event));
}

void MeshEvents::add_failed_query(const HostAddr& host, std::string problem) {
  auto event = make(WatchEvent::Kind::query_failed, host);
  event.problem = std::move(problem);
  queue_.add(std::move(event));
}

bool MeshEvents::add_end(bool is_over, const HostAddr& host) {
  if (!queue_.complete(is_over)) return false;
  queue_.add(make(WatchEvent::Kind::ended, host));
  return true;
}

std::set<HostAddr> MeshEvents::take(std::vector<WatchEvent>& events, Status::Kind overall,
                                    Time now) {
  auto reports = queue_.take(now);
  for (auto& event : reports.events) {
    event.overall = overall;
    events.push_back(std::move(event));
  }
  return std::move(reports.ask);
}

std::vector<WatchEvent> MeshEvents::standing(std::vector<WatchEvent> ranks,
                                             const std::map<HostAddr, std::string>& silent,
                                             const HostAddr& ended_on, Status::Kind overall) const {
  auto events = std::move(ranks);
  ReportQueue::sort(events);
  if (queue_.is_complete()) {
    events.push_back(make(WatchEvent::Kind::ended, ended_on));
  } else {
    for (const auto& [host, problem] : silent) {
      events.push_back(make(WatchEvent::Kind::host_unreachable, host));
      events.back().problem = problem;
    }
  }
  for (auto& event : events) event.overall = overall;
  return events;
}

Status status_of(const wire::RankState& rank, const wire::ExitReportT* exit_report) {
  RankReport report;
  copy_state(rank, report);
  if (exit_report != nullptr) report.reason = cut_text(exit_report->reason, 256);
  return report.status();
}

}  // namespace meshbus
