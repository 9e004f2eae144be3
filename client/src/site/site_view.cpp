#include <algorithm>
#include <iterator>

#include "meshbus/site.h"

namespace meshbus {
namespace {

/// Both are by rank; where both have a rank, the later one counts.
void merge(std::vector<std::shared_ptr<const SiteRank>>& into,
           const std::vector<std::shared_ptr<const SiteRank>>& later) {
  std::vector<std::shared_ptr<const SiteRank>> all;
  all.reserve(into.size() + later.size());
  // The first of two equal elements is kept: that of `later`.
  std::set_union(later.begin(), later.end(), into.begin(), into.end(), std::back_inserter(all),
                 [](const auto& a, const auto& b) { return a->report.rank < b->report.rank; });
  into = std::move(all);
}

}  // namespace

std::string_view to_string(SiteHostState state) noexcept {
  switch (state) {
    case SiteHostState::connecting: return "connecting";
    case SiteHostState::up: return "up";
    case SiteHostState::lost: return "lost";
  }
  return "lost";
}

bool SiteView::apply(const SiteView& later) {
  if (later.since == 0) {
    *this = later;
    return true;
  }
  if (later.since != sequence || since != 0) return false;
  sequence = later.sequence;
  time = later.time;
  cut = later.cut;
  for (const auto& host : later.hosts) {
    const auto known = std::find_if(hosts.begin(), hosts.end(),
                                    [&](const auto& one) { return one.host == host.host; });
    known == hosts.end() ? hosts.push_back(host) : void(*known = host);
  }
  for (const auto& one : later.controllers) {
    const auto known = std::find_if(controllers.begin(), controllers.end(),
                                    [&](const auto& other) { return other.host == one.host; });
    known == controllers.end() ? controllers.push_back(one) : void(*known = one);
  }
  for (const auto& name : later.gone)
    std::erase_if(meshes, [&](const auto& mesh) { return mesh.name == name; });
  for (const auto& mesh : later.meshes) {
    const auto place =
        std::lower_bound(meshes.begin(), meshes.end(), mesh.name,
                         [](const auto& one, const auto& name) { return one.name < name; });
    if (place == meshes.end() || place->name != mesh.name) {
      meshes.insert(place, mesh);
      continue;
    }
    auto ranks = std::move(place->ranks);
    merge(ranks, mesh.ranks);
    // It may have been made smaller.
    std::erase_if(ranks, [&](const auto& rank) {
      return !mesh.region.ordinal_of(rank->report.rank).has_value();
    });
    *place = mesh;
    place->ranks = std::move(ranks);
  }
  const auto most = std::max<std::size_t>(events.size(), SiteOptions().events);
  events.insert(events.end(), later.events.begin(), later.events.end());
  if (events.size() > most)
    events.erase(events.begin(),
                 events.begin() + static_cast<std::ptrdiff_t>(events.size() - most));
  return true;
}

}  // namespace meshbus
