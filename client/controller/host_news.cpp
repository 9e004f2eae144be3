#include "client/controller/host_news.h"

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

RankNews to_news(const flatbuffers::Vector<const wire::RankState*>* ranks,
                 const flatbuffers::Vector<flatbuffers::Offset<wire::ExitReport>>* exit_reports,
                 const flatbuffers::Vector<const wire::RankTrouble*>* troubles) {
  RankNews news;
  if (ranks != nullptr) {
    news.ranks.reserve(ranks->size());
    for (const auto* rank : *ranks) news.ranks.push_back(*rank);
  }
  if (exit_reports != nullptr) {
    for (const auto* exit_report : *exit_reports)
      news.exit_reports.push_back(std::shared_ptr<const wire::ExitReportT>(exit_report->UnPack()));
  }
  for (flatbuffers::uoffset_t i = 0; troubles != nullptr && i < troubles->size(); ++i) news.troubles.push_back(*troubles->Get(i));
  return news;
}

std::optional<OwnerNews> to_news(const wire::Ownership* ownership) {
  if (ownership == nullptr) return std::nullopt;
  return OwnerNews{.owner = ownership->owner()->str(),
                   .lease = std::chrono::milliseconds(ownership->lease_ms()),
                   .loss = ownership->loss(),
                   .is_gone = ownership->gone(),
                   .begins_anew = ownership->begins_anew() && !ownership->gone()};
}

Result<MeshNews> to_news(const wire::MeshState& state) {
  auto region = from_wire(state.region());
  if (!region) return fail(region.error().within("mesh " + state.mesh()->str()));
  MeshNews news{.mesh = state.mesh()->str(), .region = std::move(*region), .hosts = {}, .news = {}};
  for (const auto* text : *state.hosts()) {
    auto host = HostAddr::parse(text->string_view());
    if (!host) return fail(host.error().within("mesh " + news.mesh));
    news.hosts.push_back(std::move(*host));
  }
  news.news = to_news(state.ranks(), state.exit_reports(), state.troubles());
  news.news.owner = to_news(state.ownership());
  return news;
}

ListNews to_news(const wire::MeshList& list) {
  ListNews news;
  news.after = text_of(list.after());
  news.more = list.more();
  if (list.meshes() == nullptr) return news;
  for (const auto* state : *list.meshes()) {
    if (auto mesh = to_news(*state)) news.meshes.push_back(std::move(*mesh));
  }
  return news;
}

ActorNews to_news(const flatbuffers::Vector<flatbuffers::Offset<wire::ActorState>>* actors) {
  ActorNews news;
  for (flatbuffers::uoffset_t i = 0; actors != nullptr && i < actors->size(); ++i)
    news.actors.push_back(std::shared_ptr<const wire::ActorStateT>(actors->Get(i)->UnPack()));
  return news;
}

}  // namespace meshbus
