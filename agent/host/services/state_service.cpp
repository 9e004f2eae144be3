#include "agent/host/services/state_service.h"

#include <utility>

#include "agent/host/updates/change_list.h"
#include "agent/host/updates/mesh_report.h"
#include "common/wire/control.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {
namespace {

constexpr std::size_t kMostSubscribers = 1000;

}  // namespace

void StateService::add_rows(Dispatcher& handlers, const std::unique_ptr<StateService>& service) {
  using Self = StateService;
  handlers.on<wire::GetState>(Role::observe, row(service, &Self::on_get_state))
      .on<wire::ListMeshes>(Role::observe, row(service, &Self::on_list_meshes))
      .on<wire::StreamState>(Role::observe, row(service, &Self::on_stream_state))
      .on<wire::StopStream>(Role::observe, row(service, &Self::on_stop_stream))
      .on<wire::GetRankStatus>(Role::observe, row(service, &Self::on_get_rank_status))
      .on<wire::WaitRankStatus>(Role::observe, row(service, &Self::on_wait_rank_status));
}

void StateService::on_get_state(const Request& request, const wire::GetState& message) {
  Mesh* mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  if (message.usage()) parts_.procs.usage().refresh(*mesh);
  // The asker may be the owner or a subscriber: the changes of this turn must not come behind an
  // answer that has them.
  parts_.publisher.flush_changes(*mesh);
  parts_.bus.answer(request, make_mesh_state(*mesh, kReportBytes, nullptr, message.usage()));
}

void StateService::answer_changes(const Request& request, const wire::ListMeshes& message) {
  const auto& meshes = parts_.procs.table().meshes();
  const auto incarnation = parts_.facts.options().incarnation;
  ChangeQuery query{
      .since = message.since(), .from = text_of(message.from()), .from_rank = message.from_rank()};
  const bool is_begin = query.from.empty();
  if (is_begin) changes_.look(meshes);
  if (message.incarnation() != incarnation || !changes_.is_known(query.since)) query.since = 0;
  auto list = make_change_list(meshes, changes_, query);
  list.host = parts_.checks.host();
  list.incarnation = incarnation;
  if (is_begin) list.facts = std::make_unique<wire::HostStateT>(parts_.facts.make());
  parts_.bus.answer(request, std::move(list));
}

void StateService::on_list_meshes(const Request& request, const wire::ListMeshes& message) {
  if (message.changes()) return answer_changes(request, message);
  if (message.usage()) parts_.procs.usage().refresh_all();
  parts_.bus.answer(request, make_mesh_list(parts_.procs.table().meshes(), text_of(message.after()),
                                            parts_.checks.host(), kReportBytes, message.usage()));
}

void StateService::on_stream_state(const Request& request, const wire::StreamState& message) {
  const auto subscriber =
      parts_.checks.find_sender(request, message.subscriber(), "StreamState.subscriber");
  if (!subscriber) return;
  Mesh* mesh = parts_.checks.find_mesh(request, message.mesh());
  if (mesh == nullptr) return;
  const bool is_owner =
      message.owner_moved() && parts_.ownership.move_owner(request, *mesh, *subscriber);
  if (!is_owner && mesh->subscribers.size() >= kMostSubscribers)
    return parts_.checks.refuse(request,
                                Error(ErrorCode::queue_full, "mesh " + mesh->name + " has " +
                                                                 std::to_string(kMostSubscribers) +
                                                                 " subscribers already"));
  // What is not told yet goes to the others first: it is in the answer, and must not be told again
  // behind it.
  parts_.publisher.flush_changes(*mesh);
  if (!is_owner) mesh->subscribers.insert_or_assign(subscriber->to_string(), *subscriber);
  parts_.procs.table().touch(*mesh);
  std::vector<const Proc*> later;
  parts_.bus.answer(request, make_mesh_state(*mesh, kReportBytes, &later));
  parts_.publisher.send_exit_reports(*mesh, later, *subscriber);
  parts_.ownership.watch(*subscriber);
}

void StateService::on_stop_stream(const Request& request, const wire::StopStream& message) {
  const auto subscriber =
      parts_.checks.find_sender(request, message.subscriber(), "StopStream.subscriber");
  if (!subscriber) return;
  parts_.checks.ack(request);
  Mesh* mesh = parts_.procs.table().find_mesh(message.mesh()->string_view());
  if (mesh == nullptr || mesh->subscribers.erase(subscriber->to_string()) == 0) return;
  parts_.procs.table().touch(*mesh);
  parts_.ownership.release(*subscriber);
}

std::optional<std::vector<RankBlock>> StateService::find_ranks(
    const Request& request, const flatbuffers::String* name,
    const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::string_view field) {
  auto blocks = parse_ranks(ranks, kAnyRank, field);
  if (!blocks) {
    parts_.checks.refuse(request, blocks.error());
    return std::nullopt;
  }
  if (!blocks->empty()) return std::move(*blocks);
  const Mesh* mesh = parts_.checks.find_mesh(request, name);
  if (mesh == nullptr) return std::nullopt;
  for (const auto& [rank, proc] : mesh->procs) {
    if (!blocks->empty() && blocks->back().end == rank) {
      ++blocks->back().end;
    } else {
      blocks->push_back({rank, rank + 1});
    }
  }
  return std::move(*blocks);
}

void StateService::on_get_rank_status(const Request& request, const wire::GetRankStatus& message) {
  const auto ranks = find_ranks(request, message.mesh(), message.ranks(), "GetRankStatus.ranks");
  if (ranks) parts_.waits.answer(request, message.mesh()->str(), *ranks);
}

void StateService::on_wait_rank_status(const Request& request,
                                       const wire::WaitRankStatus& message) {
  const auto asker = parts_.checks.find_sender(request, message.asker(), "WaitRankStatus.asker");
  if (!asker) return;
  const auto minimum = message.minimum();
  if (minimum == wire::StatusKind::unknown || minimum > wire::StatusKind::MAX)
    return parts_.checks.refuse(
        request, Error(ErrorCode::out_of_range,
                       "WaitRankStatus.minimum: " + std::to_string(static_cast<int>(minimum)) +
                           " is no status that a rank can reach"));
  auto ranks = find_ranks(request, message.mesh(), message.ranks(), "WaitRankStatus.ranks");
  if (!ranks) return;
  const auto waits =
      parts_.waits.add(request, {.mesh = message.mesh()->str(),
                                 .ranks = std::move(*ranks),
                                 .minimum = static_cast<Status::Kind>(minimum),
                                 .limit = std::chrono::milliseconds(message.wait_ms()),
                                 .asker = *asker});
  if (!waits) return parts_.checks.refuse(request, waits.error());
  if (*waits) parts_.ownership.watch(*asker);
}

}  // namespace meshbus::host
