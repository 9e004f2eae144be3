#include "meshbus/host_mesh_ref.h"

#include <ostream>

#include "common/address/address_list.h"
#include "mesh/text.h"
#include "meshbus/extent.h"
#include "meshbus/key.h"

namespace meshbus {
namespace {

std::string cardinality(const Region& region, std::size_t hosts) {
  return "InvalidRankCardinality: expected " + std::to_string(region.num_ranks()) +
         " hosts, one for each rank of region " + text::quoted(region.to_string()) + ", found " +
         std::to_string(hosts);
}

}  // namespace

Result<HostMeshRef> HostMeshRef::make(Name name, Region region, std::vector<HostAddr> hosts) {
  if (hosts.size() != region.num_ranks()) {
    return fail(ErrorCode::invalid_rank_cardinality,
                "host mesh reference: " + cardinality(region, hosts.size()));
  }
  return HostMeshRef(std::move(name), std::move(region), std::move(hosts));
}

Result<HostMeshRef> HostMeshRef::of_hosts(Name name, std::vector<HostAddr> hosts) {
  const auto extent = Extent::make({{"host", hosts.size()}});
  if (!extent) return fail(extent.error());
  return make(std::move(name), Region(*extent), std::move(hosts));
}

Result<HostMeshRef> HostMeshRef::of_agents(Name name, const std::vector<std::string>& agents) {
  std::vector<HostAddr> hosts;
  for (std::size_t i = 0; i < agents.size(); ++i) {
    const auto id = ActorId::parse(agents[i]);
    const auto where = "host mesh reference: agent " + std::to_string(i);
    if (!id) return fail(id.error().within(where + ": expected HOST,service,agent[0]"));
    if (*id != host_agent(id->proc().host()))
      return fail(ErrorCode::parse_error,
                  where + ": expected HOST,service,agent[0], found " + id->to_string());
    hosts.push_back(id->proc().host());
  }
  return of_hosts(std::move(name), std::move(hosts));
}

Result<HostMeshRef> HostMeshRef::parse(std::string_view text) {
  return parse(text::Scanner("host mesh reference", text));
}

Result<HostMeshRef> HostMeshRef::parse(text::Scanner part) {
  const std::size_t begin = part.position();
  const std::size_t colon = part.rest().find(':');
  if (colon == std::string_view::npos)
    return part.unexpected_at(part.end(), "':' and the addresses of hosts");
  Result<Name> name = Name::parse(part.part("name", begin, begin + colon));
  if (!name) return fail(std::move(name).error());
  part.advance(colon + 1);

  const std::size_t addresses = part.position();
  const std::size_t at = address_list::find_region(part.rest());
  if (at == std::string_view::npos) return part.unexpected_at(part.end(), "'@' and a region");
  Result<std::vector<HostAddr>> hosts =
      address_list::parse(part.part("host address", addresses, addresses + at));
  if (!hosts) return fail(std::move(hosts).error());
  Result<Region> region = Region::parse(part.part("region", addresses + at + 1, part.end()));
  if (!region) return fail(std::move(region).error());
  if (hosts->size() != region->num_ranks()) {
    return fail(Error(ErrorCode::invalid_rank_cardinality, "host mesh reference: at " +
                                                               std::to_string(addresses) + ": " +
                                                               cardinality(*region, hosts->size()))
                    .at(addresses));
  }
  return HostMeshRef(std::move(*name), std::move(*region), std::move(*hosts));
}

const HostAddr* HostMeshRef::find(std::uint64_t base_rank) const noexcept {
  const std::optional<std::uint64_t> ordinal = region_.ordinal_of(base_rank);
  return ordinal ? &hosts_[static_cast<std::size_t>(*ordinal)] : nullptr;
}

Result<HostMeshRef> HostMeshRef::range(std::string_view label, std::uint64_t begin,
                                       std::optional<std::uint64_t> end, std::uint64_t step) const {
  const Result<Region> region = region_.range(label, begin, end, step);
  if (!region) return fail(region.error().within(name_.to_string()));
  return sliced(*region);
}

Result<HostMeshRef> HostMeshRef::at(std::string_view label, std::uint64_t index) const {
  const Result<Region> region = region_.at(label, index);
  if (!region) return fail(region.error().within(name_.to_string()));
  return sliced(*region);
}

Result<HostMeshRef> HostMeshRef::sliced(const Region& region) const {
  std::vector<HostAddr> hosts;
  // A region that is larger than ours runs into a rank that is not here before it has taken more
  // than we have.
  if (region.num_ranks() <= num_ranks())
    hosts.reserve(static_cast<std::size_t>(region.num_ranks()));
  for (const std::uint64_t rank : region.ranks()) {
    const HostAddr* host = find(rank);
    if (host == nullptr) {
      return fail(ErrorCode::out_of_range, name_.to_string() + ": rank " + std::to_string(rank) +
                                               " of region " + text::quoted(region.to_string()) +
                                               " is not in region " +
                                               text::quoted(region_.to_string()));
    }
    hosts.push_back(*host);
  }
  return HostMeshRef(name_, region, std::move(hosts));
}

std::string HostMeshRef::to_string() const {
  std::string out = name_.to_string() + ":";
  address_list::append(out, hosts_);
  return out + "@" + region_.to_string();
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out,
                                                        const HostMeshRef& mesh) {
  return out << mesh.to_string();
}

}  // namespace meshbus

std::size_t std::hash<meshbus::HostMeshRef>::operator()(
    const meshbus::HostMeshRef& mesh) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(mesh.to_string()));
}
