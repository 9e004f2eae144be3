#include "client/src/host_mesh/asked_statuses.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "client/src/base/time_left.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/gateway_search.h"
#include "client/src/host_mesh/status_places.h"
#include "common/wire/wire_values.h"
#include "meshbus/status_wait.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// An answer that is there: this host is not asked.
Connection::Answer no_answer(Error why) {
  std::promise<Result<ControlMessage>> promise;
  promise.set_value(fail(std::move(why)));
  return promise.get_future();
}

/// What none of these hosts said.
MeshStatuses unreached(const ProcMeshRef& mesh, const std::vector<HostAddr>& hosts,
                       std::map<HostAddr, Error> problems) {
  for (const auto& host : hosts)
    problems.try_emplace(host, ErrorCode::host_unreachable,
                         "not tried: no other host of the mesh could be reached");
  return {.statuses = StatusMesh(Region(mesh.region().extent()), Status()),
          .unreachable = std::move(problems)};
}

}  // namespace

MeshStatuses ask_statuses(ContextCore& core, Connection& connection, const ProcMeshRef& mesh,
                          const std::map<HostAddr, Error>& problems, milliseconds deadline) {
  StatusWait now(Region(mesh.region().extent()), Status::Kind::not_exist, {}, Clock::now());
  auto places = places_of(mesh);
  // On the reactor's thread: what is asked in one turn leaves together.
  auto answers = core.run([&] {
    std::vector<Connection::Answer> asked;
    for (const auto& place : places) {
      if (const auto problem = problems.find(place.host); problem != problems.end()) {
        asked.push_back(no_answer(problem->second));
        continue;
      }
      if (connection.hosts().has_ended(place.host)) {
        asked.push_back(no_answer(*connection.hosts().loss_of(place.host)));
        continue;
      }
      wire::GetRankStatusT get;
      get.mesh = mesh.mesh().to_string();
      get.ranks = to_wire(place.ranks);
      asked.push_back(connection.ask(Destination::to_agent(place.host), std::move(get), deadline));
    }
    return asked;
  });
  MeshStatuses result{.statuses = now.statuses(), .unreachable = {}};
  // The last one first: a thread that waits for it is seldom woken for another.
  for (std::size_t i = places.size(); i-- > 0;) {
    take_answer(now, mesh, places[i], answers[i].get(), Status::Kind::not_exist);
    if (places[i].problem) result.unreachable.emplace(places[i].host, *places[i].problem);
  }
  result.statuses = now.statuses();
  return result;
}

Result<MeshStatuses> MeshStatuses::ask(Context& context, const ProcMeshRef& mesh,
                                       milliseconds deadline) {
  const auto& core = context.core();
  if (auto fine = check_owner(core); !fine) return fail(fine.error());
  deadline = Calls::clamp(deadline);
  const auto end = Clock::now() + deadline;
  std::vector<HostAddr> hosts;
  for (const auto& place : places_of(mesh)) {
    if (std::find(hosts.begin(), hosts.end(), place.host) == hosts.end())
      hosts.push_back(place.host);
  }
  if (hosts.empty()) return unreached(mesh, {}, {});
  auto way = find_way(core, hosts, deadline);
  if (way.connection.get() == nullptr) return unreached(mesh, hosts, std::move(way.problems));
  auto result = ask_statuses(*core, *way.connection.get(), mesh, way.problems, left_until(end));
  for (auto& [host, error] : result.unreachable) {
    // The question was about ranks: a deadline that has passed is the silence of a host.
    if (error.code() == ErrorCode::timeout)
      error = Error(ErrorCode::host_unreachable, error.detail());
  }
  return result;
}

}  // namespace meshbus
