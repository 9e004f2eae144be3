#include "client/controller/host_update.h"

#include "common/wire/control.h"
#include "common/wire/wire_region.h"
#include "wire/actors_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {

bool is_silence(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::undeliverable:
    case ErrorCode::host_unreachable:
    case ErrorCode::unroutable:
    case ErrorCode::no_such_host:
    case ErrorCode::no_such_proc:
    case ErrorCode::link_lost:
    case ErrorCode::expired: return true;
    default: return false;
  }
}

RankUpdate to_update(const flatbuffers::Vector<const wire::RankState*>* ranks,
                     const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
                     const flatbuffers::Vector<const wire::RankTrouble*>* troubles,
                     const flatbuffers::Vector<flatbuffers::Offset<wire::StuckHandler>>* stuck) {
  RankUpdate update;
  if (ranks != nullptr) {
    update.ranks.reserve(ranks->size());
    for (const auto* rank : *ranks) update.ranks.push_back(*rank);
  }
  if (exit_reports != nullptr) {
    for (const auto* exit_report : *exit_reports)
      update.exit_reports.push_back(
          std::shared_ptr<const wire::ExitReportT>(exit_report->UnPack()));
  }
  for (flatbuffers::uoffset_t i = 0; troubles != nullptr && i < troubles->size(); ++i)
    update.troubles.push_back(*troubles->Get(i));
  for (flatbuffers::uoffset_t i = 0; stuck != nullptr && i < stuck->size(); ++i)
    update.stuck.push_back(std::shared_ptr<const wire::StuckHandlerT>(stuck->Get(i)->UnPack()));
  return update;
}

std::optional<OwnerUpdate> to_update(const wire::Ownership* ownership) {
  if (ownership == nullptr) return std::nullopt;
  OwnerUpdate update{.owner = ownership->owner()->str(),
                     .lease = std::chrono::milliseconds(ownership->lease_ms()),
                     .loss = ownership->loss(),
                     .is_gone = ownership->gone(),
                     .may_restart = ownership->may_restart() && !ownership->gone(),
                     .incarnation = ownership->incarnation()};
  for (flatbuffers::uoffset_t i = 0;
       ownership->stopped() != nullptr && i < ownership->stopped()->size(); ++i) {
    const auto* const block = ownership->stopped()->Get(i);
    update.stopped.push_back({block->begin(), block->end()});
  }
  if (ownership->restarts() != nullptr)
    update.restarts = from_wire(*ownership->restarts(), ClockPair::now());
  return update;
}

std::optional<OwnerUpdate> to_update(const wire::HostOwner* owner) {
  if (owner == nullptr) return std::nullopt;
  return OwnerUpdate{.owner = owner->owner()->str(),
                     .lease = std::chrono::milliseconds(owner->lease_ms()),
                     .loss = owner->loss(),
                     .is_gone = owner->gone()};
}

Result<MeshUpdate> to_update(const wire::MeshState& state) {
  auto region = from_wire(state.region());
  if (!region) return fail(region.error().within("mesh " + state.mesh()->str()));
  MeshUpdate update{
      .mesh = state.mesh()->str(), .region = std::move(*region), .hosts = {}, .ranks_update = {}};
  for (const auto* text : *state.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host) return fail(host.error().within("mesh " + update.mesh));
    update.hosts.push_back(std::move(*host));
  }
  update.ranks_update =
      to_update(state.ranks(), state.exit_reports(), state.troubles(), state.stuck());
  update.ranks_update.owner = to_update(state.ownership());
  update.ranks_update.layout =
      MeshLayout{.region = update.region, .hosts = update.hosts, .revision = state.revision()};
  return update;
}

ListUpdate to_update(const wire::MeshList& list) {
  ListUpdate update;
  update.after = text_of(list.after());
  update.more = list.more();
  if (list.meshes() == nullptr) return update;
  for (const auto* state : *list.meshes()) {
    if (auto mesh = to_update(*state)) update.meshes.push_back(std::move(*mesh));
  }
  return update;
}

ActorUpdate to_update(const flatbuffers::Vector<flatbuffers::Offset<wire::ActorState>>* actors) {
  ActorUpdate update;
  for (flatbuffers::uoffset_t i = 0; actors != nullptr && i < actors->size(); ++i)
    update.actors.push_back(std::shared_ptr<const wire::ActorStateT>(actors->Get(i)->UnPack()));
  return update;
}

}  // namespace meshbus
