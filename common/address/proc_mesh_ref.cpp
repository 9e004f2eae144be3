#include "meshbus/proc_mesh_ref.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

#include "common/address/address_list.h"
#include "mesh/text.h"
#include "meshbus/key.h"

namespace meshbus {
namespace {

constexpr std::uint64_t kMaxRanks = std::numeric_limits<std::int64_t>::max();

std::string no_rank(const Name& mesh, std::uint64_t rank, std::uint64_t ranks) {
  return "mesh " + mesh.to_string() + ": no rank " + std::to_string(rank) + " of " +
         std::to_string(ranks);
}

}  // namespace

Result<ProcMeshRef> ProcMeshRef::make(Name mesh, std::vector<HostAddr> hosts,
                                      std::uint64_t root_ranks, Region region) {
  if (root_ranks > kMaxRanks) {
    return fail(ErrorCode::configuration_error, "mesh " + mesh.to_string() + ": " +
                                                    std::to_string(root_ranks) +
                                                    " ranks; at most 2^63-1 can be numbered");
  }
  if (root_ranks > 0 && hosts.empty()) {
    return fail(ErrorCode::configuration_error,
                "mesh " + mesh.to_string() + ": " + std::to_string(root_ranks) +
                    " ranks but no host for them; name at least one host");
  }
  return ProcMeshRef(std::move(mesh),
                     std::make_shared<const std::vector<HostAddr>>(std::move(hosts)), root_ranks,
                     Region())
      .sliced(std::move(region));
}

Result<ProcMeshRef> ProcMeshRef::make(Name mesh, std::vector<HostAddr> hosts,
                                      const Extent& extent) {
  return make(std::move(mesh), std::move(hosts), extent.num_ranks(), extent);
}

Result<ProcMeshRef> ProcMeshRef::sliced(Region region) const {
  // The last rank of a region is its largest: strides are positive.
  if (const auto largest = region.base_rank(region.num_ranks() - 1);
      !region.is_empty() && *largest >= root_ranks_) {
    return fail(ErrorCode::out_of_range, no_rank(mesh_, *largest, root_ranks_) + "; region " +
                                             text::quoted(region.to_string()) + " needs it");
  }
  return ProcMeshRef(mesh_, hosts_, root_ranks_, std::move(region));
}

Result<ProcMeshRef> ProcMeshRef::parse(std::string_view text) {
  const text::Scanner whole("proc mesh", text);
  const std::size_t bracket = std::min(text.find('['), text.size());
  auto mesh = Name::parse(whole.part("name", 0, bracket));
  if (!mesh) return fail(std::move(mesh).error());
  text::Scanner scanner = whole;
  scanner.advance(bracket);
  if (auto open = scanner.expect('['); !open) return fail(std::move(open).error());
  const auto root_ranks = scanner.number("the number of ranks of the whole mesh", kMaxRanks);
  if (!root_ranks) return fail(root_ranks.error());
  if (auto close = scanner.expect(']'); !close) return fail(std::move(close).error());
  if (auto colon = scanner.expect(':'); !colon) return fail(std::move(colon).error());
  const std::size_t begin = scanner.position();
  const std::size_t at = address_list::find_region(scanner.rest());
  if (at == std::string_view::npos) return scanner.unexpected_at(scanner.end(), "'@' and a region");
  auto hosts = address_list::parse(whole.part("host address", begin, begin + at));
  if (!hosts) return fail(std::move(hosts).error());
  auto region = Region::parse(whole.part("region", begin + at + 1, text.size()));
  if (!region) return fail(std::move(region).error());
  return make(std::move(*mesh), std::move(*hosts), *root_ranks, std::move(*region));
}

Result<std::uint64_t> ProcMeshRef::host_index_of(std::uint64_t create_rank) const {
  if (create_rank >= root_ranks_)
    return fail(ErrorCode::out_of_range, no_rank(mesh_, create_rank, root_ranks_));
  const std::uint64_t small = root_ranks_ / hosts_->size();
  const std::uint64_t large_blocks = root_ranks_ % hosts_->size();
  const std::uint64_t in_large = large_blocks * (small + 1);
  if (create_rank < in_large) return create_rank / (small + 1);
  return large_blocks + (create_rank - in_large) / small;
}

Result<RankBlock> ProcMeshRef::block_of(std::uint64_t host_index) const {
  if (host_index >= hosts_->size()) {
    return fail(ErrorCode::out_of_range, "mesh " + mesh_.to_string() + ": no host " +
                                             std::to_string(host_index) + " of " +
                                             std::to_string(hosts_->size()));
  }
  const std::uint64_t small = root_ranks_ / hosts_->size();
  const std::uint64_t large_blocks = root_ranks_ % hosts_->size();
  const std::uint64_t begin = host_index * small + std::min(host_index, large_blocks);
  return RankBlock{begin, begin + small + (host_index < large_blocks ? 1 : 0)};
}

Result<ProcId> ProcMeshRef::proc_of(std::uint64_t create_rank) const {
  const auto host = host_index_of(create_rank);
  if (!host) return fail(host.error());
  return ProcId((*hosts_)[*host], proc_name(mesh_, create_rank));
}

Result<std::uint64_t> ProcMeshRef::create_rank(std::uint64_t ordinal) const {
  if (ordinal >= num_ranks())
    return fail(ErrorCode::out_of_range, no_rank(mesh_, ordinal, num_ranks()));
  return region_.base_rank(ordinal);
}

Result<std::uint64_t> ProcMeshRef::ordinal_of(std::uint64_t create_rank) const {
  if (const auto ordinal = region_.ordinal_of(create_rank)) return *ordinal;
  return fail(ErrorCode::not_exist,
              "mesh " + mesh_.to_string() + ": rank " + std::to_string(create_rank) +
                  " of the mesh as made is not in view " + text::quoted(region_.to_string()));
}

Result<ProcId> ProcMeshRef::proc_at(std::uint64_t ordinal) const {
  const auto rank = create_rank(ordinal);
  if (!rank) return fail(rank.error());
  return proc_of(*rank);
}

Result<ProcMeshRef> ProcMeshRef::range(std::string_view label, std::uint64_t begin,
                                       std::optional<std::uint64_t> end, std::uint64_t step) const {
  auto region = region_.range(label, begin, end, step);
  if (!region) return fail(region.error().within("mesh " + mesh_.to_string()));
  return ProcMeshRef(mesh_, hosts_, root_ranks_, std::move(*region));
}

Result<ProcMeshRef> ProcMeshRef::at(std::string_view label, std::uint64_t index) const {
  auto region = region_.at(label, index);
  if (!region) return fail(region.error().within("mesh " + mesh_.to_string()));
  return ProcMeshRef(mesh_, hosts_, root_ranks_, std::move(*region));
}

std::string ProcMeshRef::to_string() const {
  std::string out = mesh_.to_string() + '[' + std::to_string(root_ranks_) + "]:";
  address_list::append(out, *hosts_);
  return out + '@' + region_.to_string();
}

[[gnu::visibility("default")]] bool operator==(const ProcMeshRef& a, const ProcMeshRef& b) {
  return a.mesh_ == b.mesh_ && a.root_ranks_ == b.root_ranks_ && a.region_ == b.region_ &&
         (a.hosts_ == b.hosts_ || *a.hosts_ == *b.hosts_);
}

[[gnu::visibility("default")]] std::strong_ordering operator<=>(const ProcMeshRef& a,
                                                                const ProcMeshRef& b) {
  if (const auto order = a.mesh_ <=> b.mesh_; order != 0) return order;
  if (const auto order = a.root_ranks_ <=> b.root_ranks_; order != 0) return order;
  if (const auto order = a.region_ <=> b.region_; order != 0) return order;
  return *a.hosts_ <=> *b.hosts_;
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out,
                                                        const ProcMeshRef& mesh) {
  return out << mesh.to_string();
}

}  // namespace meshbus

std::size_t std::hash<meshbus::ProcMeshRef>::operator()(
    const meshbus::ProcMeshRef& mesh) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(mesh.to_string()));
}
