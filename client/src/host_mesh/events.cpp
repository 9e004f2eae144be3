#include "meshbus/events.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/wire/control.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// One host's log, page by page.
struct Pages {
  HostAddr host;
  std::uint64_t from = 0;
  bool is_over = false;
  HostReport problem = {};
};

/// Takes one answer; returns what is in it.
std::vector<HostEvent> take_answer(Pages& pages, const Result<ControlMessage>& answer) {
  std::vector<HostEvent> events;
  const auto* const list = answer ? answer->body_as<wire::EventList>() : nullptr;
  if (list == nullptr) {
    pages.is_over = true;
    pages.problem.host = pages.host;
    pages.problem.code = answer ? ErrorCode::malformed_message : answer.error().code();
    pages.problem.problem =
        answer ? "it answered " + answer->body_name() + " to GetEvents" : answer.error().detail();
    return events;
  }
  for (flatbuffers::uoffset_t i = 0; list->events() != nullptr && i < list->events()->size(); ++i)
    events.push_back(to_report(pages.host, *list->events()->Get(i)));
  pages.is_over = !list->more() || list->next() <= pages.from;
  pages.from = list->next();
  return events;
}

/// Asks all hosts at once for page after page, and hands each event to `take`.
void ask_for_pages(Connection& connection, std::vector<Pages>& hosts, std::string_view mesh,
                   Clock::time_point until,
                   const std::function<Destination(const HostAddr&)>& destination,
                   const std::function<void(HostEvent)>& take) {
  for (;;) {
    std::vector<std::pair<Pages*, Connection::Answer>> answers;
    const auto left = std::max(std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()),
                               std::chrono::milliseconds(1));
    for (auto& pages : hosts) {
      if (pages.is_over) continue;
      wire::GetEventsT get;
      get.mesh = mesh;
      get.from = pages.from;
      answers.emplace_back(&pages, connection.ask(destination(pages.host), std::move(get), left));
    }
    if (answers.empty()) return;
    for (auto& [pages, future] : answers) {
      for (auto& event : take_answer(*pages, future.get())) take(std::move(event));
    }
  }
}

void take_problems(std::vector<Pages>& hosts, EventListing& listing) {
  for (auto& pages : hosts) {
    if (pages.problem.code != ErrorCode::none)
      listing.unreachable.push_back(std::move(pages.problem));
  }
}

}  // namespace

std::string_view to_string(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::unknown: return "unknown";
    case EventKind::agent_started: return "agent_started";
    case EventKind::role_ended: return "role_ended";
    case EventKind::spawn_refused: return "spawn_refused";
    case EventKind::stop_asked: return "stop_asked";
    case EventKind::signal_asked: return "signal_asked";
    case EventKind::owner_gone: return "owner_gone";
    case EventKind::lease_lapsed: return "lease_lapsed";
    case EventKind::host_stopping: return "host_stopping";
    case EventKind::proc_ended: return "proc_ended";
    case EventKind::handed_over: return "handed_over";
    case EventKind::controller_up: return "controller_up";
    case EventKind::controller_lost: return "controller_lost";
    case EventKind::controller_late: return "controller_late";
    case EventKind::host_unreachable: return "host_unreachable";
    case EventKind::host_back: return "host_back";
    case EventKind::owner_away: return "owner_away";
    case EventKind::chaos: return "chaos";
    case EventKind::moved: return "moved";
  }
  return "unknown";
}

Result<EventListing> HostMesh::audit(std::chrono::milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  std::vector<Pages> hosts;
  for (const auto& host : impl_->distinct_hosts()) hosts.push_back({host});
  EventListing listing;
  ask_for_pages(
      impl_->connection(), hosts, {}, Clock::now() + deadline,
      [](const HostAddr& host) { return Destination::to_broker(host); },
      [&](HostEvent event) { listing.events.push_back(std::move(event)); });
  take_problems(hosts, listing);
  return listing;
}

Result<EventListing> HostMesh::events(std::string_view mesh,
                                      std::chrono::milliseconds deadline) const {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  std::vector<Pages> hosts;
  for (const auto& host : impl_->distinct_hosts()) hosts.push_back({host});
  EventListing listing;
  // An agent that died before it could say that it wrote something down has left it to the next
  // one, which does it again.
  std::set<std::tuple<HostAddr, std::string, std::uint64_t, std::uint64_t>> ends;
  ask_for_pages(
      impl_->connection(), hosts, mesh, Clock::now() + deadline,
      [](const HostAddr& host) { return Destination::to_agent(host); },
      [&](HostEvent event) {
        const bool is_known =
            event.end &&
            !ends.emplace(event.host, event.mesh, event.end->rank, event.end->incarnation).second;
        if (!is_known) listing.events.push_back(std::move(event));
      });
  take_problems(hosts, listing);
  std::stable_sort(listing.events.begin(), listing.events.end(),
                   [](const HostEvent& a, const HostEvent& b) { return a.time < b.time; });
  return listing;
}

}  // namespace meshbus
