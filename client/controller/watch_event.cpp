#include "client/controller/watch_event.h"

#include <set>

#include "client/src/base/wire_reports.h"
#include "common/wire/wire_region.h"
#include "meshbus/point.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::size_t kMessageBytes = 512 * 1024;

std::size_t size_of(const wire::ExitReportT& exit_report) {
  return 200 + exit_report.reason.size() + exit_report.stderr_tail.size() +
         exit_report.stopped_by.size() + exit_report.stop_reason.size();
}

wire::MeshEventKind to_wire(WatchEvent::Kind kind) {
  switch (kind) {
    case WatchEvent::Kind::host_unreachable: return wire::MeshEventKind::host_unreachable;
    case WatchEvent::Kind::host_back: return wire::MeshEventKind::host_back;
    case WatchEvent::Kind::query_failed: return wire::MeshEventKind::query_failed;
    case WatchEvent::Kind::ended: return wire::MeshEventKind::ended;
    case WatchEvent::Kind::restarting: return wire::MeshEventKind::restarting;
    case WatchEvent::Kind::given_up: return wire::MeshEventKind::given_up;
    case WatchEvent::Kind::resized: return wire::MeshEventKind::resized;
    default: return wire::MeshEventKind::ranks;
  }
}

bool is_same(const wire::MeshEventT& message, const WatchEvent& event, const std::string& host) {
  return event.is_of_rank() && message.kind == wire::MeshEventKind::ranks &&
         message.mesh == event.mesh && message.host == host;
}

}  // namespace

std::string_view state_of_actor(const wire::RankState& state) {
  switch (state.state()) {
    case wire::ProcState::starting: return "initializing";
    case wire::ProcState::ready: return "running";
    case wire::ProcState::stopping: return "stopping";
    case wire::ProcState::stopped: return "stopped";
    case wire::ProcState::failed: return "failed";
    default: return "unknown";
  }
}

bool is_earlier_end(const WatchEvent& a, const WatchEvent& b) {
  const auto first = a.rank.ended_ns();
  const auto second = b.rank.ended_ns();
  if ((first == 0) != (second == 0)) return second == 0;
  return first != second ? first < second : a.rank.rank() < b.rank.rank();
}

std::string WatchEvent::point() const {
  if (region == nullptr) return {};
  const auto ordinal = region->ordinal_of(rank.rank());
  const auto point = ordinal ? region->extent().point_of(*ordinal) : Result<Point>(Point());
  return point ? point->to_string() : std::string();
}

std::vector<wire::MeshEventT> to_messages(const std::vector<WatchEvent>& events, std::uint64_t poll,
                                          bool is_snapshot) {
  std::vector<wire::MeshEventT> messages;
  std::size_t bytes = 0;
  // An exit report names its rank only, so a message has at most one end of a rank.
  std::set<std::uint64_t> ended;
  for (const auto& event : events) {
    if (event.kind == WatchEvent::Kind::late) continue;
    const bool is_end = event.kind == WatchEvent::Kind::state && is_terminal(event.rank.state());
    const auto host = event.host.to_string();
    const auto size =
        sizeof(wire::RankState) + (event.exit_report == nullptr ? 0 : size_of(*event.exit_report));
    if (messages.empty() || !is_same(messages.back(), event, host) ||
        bytes + size > kMessageBytes || (is_end && ended.contains(event.rank.rank()))) {
      auto& message = messages.emplace_back();
      message.mesh = event.mesh;
      message.host = host;
      message.poll = poll;
      message.kind = to_wire(event.kind);
      message.snapshot = is_snapshot;
      message.detail = event.problem;
      message.restart_ranks = meshbus::to_wire(event.ranks);
      message.restarts = event.restarts;
      message.went = event.went;
      if (event.region != nullptr) message.region = meshbus::to_wire(*event.region);
      bytes = 0;
      ended.clear();
    }
    auto& message = messages.back();
    message.generation = event.generation;
    message.overall = static_cast<wire::StatusKind>(event.overall);
    if (!event.is_of_rank()) continue;
    bytes += size;
    if (is_end) ended.insert(event.rank.rank());
    if (event.kind == WatchEvent::Kind::trouble) {
      message.troubles.push_back(event.trouble);
      if (event.stuck != nullptr)
        message.stuck.push_back(std::make_unique<wire::StuckHandlerT>(*event.stuck));
      continue;
    }
    message.ranks.push_back(event.rank);
    if (event.exit_report != nullptr)
      message.exit_reports.push_back(std::make_unique<wire::ExitReportT>(*event.exit_report));
  }
  return messages;
}

}  // namespace meshbus
