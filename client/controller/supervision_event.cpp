#include "client/controller/supervision_event.h"

#include "client/src/base/wire_reports.h"
#include "common/base/requester_text.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

SupervisionEvent::Kind kind_of(WatchEvent::Kind kind) {
  using Kind = SupervisionEvent::Kind;
  switch (kind) {
    case WatchEvent::Kind::state: return Kind::rank;
    case WatchEvent::Kind::trouble: return Kind::trouble;
    case WatchEvent::Kind::host_unreachable: return Kind::host_unreachable;
    case WatchEvent::Kind::host_back: return Kind::host_back;
    case WatchEvent::Kind::query_failed: return Kind::query_failed;
    case WatchEvent::Kind::ended: return Kind::ended;
    case WatchEvent::Kind::late: return Kind::late;
    case WatchEvent::Kind::restarting: return Kind::restarting;
    case WatchEvent::Kind::given_up: return Kind::given_up;
    case WatchEvent::Kind::resized: return Kind::resized;
  }
  return Kind::rank;
}

/// What describe() adds to the words of an end: its requester, the reason, and what it follows
/// from.
std::string origin_of(const RankReport& rank) {
  if (!rank.is_terminal()) return {};
  std::string text;
  switch (rank.cause) {
    case Cause::unknown:
    case Cause::exited:
    case Cause::signaled:
    case Cause::stopped:
    case Cause::exec_failed:
    case Cause::spawn_failed:
    case Cause::killed_from_outside: break;
    default: text += "; cause: " + std::string(to_string(rank.cause));
  }
  if (rank.step != StopStep::none && !(rank.stopped_by.empty() && rank.stop_reason.empty())) {
    text +=
        "; stopped by " + (rank.stopped_by.empty() ? "its host" : requester_text(rank.stopped_by));
    if (!rank.stop_reason.empty()) text += ": " + rank.stop_reason;
  }
  if (rank.because) {
    text += "; a consequence of the end of rank " + std::to_string(*rank.because);
  } else if (rank.consequence) {
    text += "; a consequence";
  }
  if (rank.restarts != 0) text += "; after " + std::to_string(rank.restarts) + " restarts";
  return text;
}

std::string name_of(const SupervisionEvent& event) {
  return event.actor.empty() ? event.mesh : event.mesh + "," + event.actor;
}

std::string host_of(const SupervisionEvent& event) {
  return event.host ? event.host->to_string() : "?";
}

}  // namespace

RankReport to_rank_report(const WatchEvent& event) {
  RankReport report;
  report.rank = event.rank.rank();
  report.host = event.host;
  report.point = event.point();
  copy_state(event.rank, report);
  if (event.kind == WatchEvent::Kind::trouble)
    copy_trouble(event.trouble, report, event.stuck.get());
  if (event.exit_report != nullptr) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(wire::ExitReport::Pack(builder, event.exit_report.get()));
    copy_exit_report(*flatbuffers::GetRoot<wire::ExitReport>(builder.GetBufferPointer()), report);
  }
  return report;
}

SupervisionEvent to_supervision_event(const WatchEvent& event) {
  SupervisionEvent out;
  out.kind = kind_of(event.kind);
  const auto comma = event.mesh.find(',');
  out.mesh = event.mesh.substr(0, comma);
  if (comma != std::string::npos) out.actor = event.mesh.substr(comma + 1);
  if (event.kind != WatchEvent::Kind::ended && event.kind != WatchEvent::Kind::late)
    out.host = event.host;
  if (event.is_of_rank()) out.rank = to_rank_report(event);
  out.problem = event.problem;
  out.ranks = event.ranks;
  out.generation = event.generation;
  out.overall = event.overall;
  out.lateness = event.lateness;
  return out;
}

bool is_repeated_for_mesh(const WatchEvent& event) {
  return (event.kind == WatchEvent::Kind::host_unreachable ||
          event.kind == WatchEvent::Kind::host_back) &&
         !event.mesh.empty();
}

std::string SupervisionEvent::describe() const {
  const auto why = problem.empty() ? std::string() : ": " + problem;
  const auto what = mesh.empty() ? std::string() : name_of(*this) + ": ";
  switch (kind) {
    case Kind::rank: return what + (rank ? rank->describe() + origin_of(*rank) : "?");
    case Kind::trouble: {
      if (!rank) return what + "?";
      const auto place = "rank " + std::to_string(rank->rank) + " (" +
                         (rank->point.empty() ? "" : rank->point + " on ") + host_of(*this) + ")";
      if (rank->trouble == Trouble::none) return what + place + " is well again";
      return what + place + " is " + std::string(to_string(rank->trouble)) + ": " +
             rank->trouble_reason;
    }
    case Kind::host_unreachable: return what + "host " + host_of(*this) + " does not answer" + why;
    case Kind::host_back: return what + "host " + host_of(*this) + " answers again";
    case Kind::query_failed:
      return what + "the agent of host " + host_of(*this) + " does not say what it was asked" + why;
    case Kind::ended: return what + "ended (" + Status(overall).to_string() + ")";
    case Kind::late: return "the controller was " + std::to_string(lateness.count()) + " ms late";
    case Kind::controller_silent:
      return "nothing is heard of the controller at " + host_of(*this) + why;
    case Kind::controller_lost:
      return "the controller at " + host_of(*this) + " is taken for lost" + why;
    case Kind::restarting:
    case Kind::given_up:
    case Kind::resized: return what + problem;
    case Kind::controller_back: return "the controller at " + host_of(*this) + " is there again";
  }
  return what;
}

}  // namespace meshbus
