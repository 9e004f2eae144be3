#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/extent.h"
#include "meshbus/name.h"
#include "meshbus/region.h"
#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

/// Create ranks begin, begin+1, ... end-1.
struct RankBlock {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const noexcept { return end - begin; }  ///< How many.
  friend bool operator==(const RankBlock&, const RankBlock&) = default;
};

/// Names the procs of a mesh, or of a slice of it. A plain value: copy it, print it, send it to
/// another process, use it on any thread. Keeps nothing alive, and needs nobody to answer: every
/// proc's address is computed.
///
///     Result<ProcMeshRef> mesh = ProcMeshRef::make(*Name::make("trainers"), {h1, h2},
///                                                  *Extent::parse("{host: 2, gpu: 4}"));
///     mesh->num_ranks();                      // 8
///     mesh->proc_at(5)->to_string();          // "tcp:h2:7420,trainers_5-13Se1Maqzryj"
///     auto first_gpus = mesh->range("gpu", 0, 1);
///     first_gpus->create_rank(1);             // 4: the rank of the mesh
///     mesh->at("host", 1)->num_ranks();       // 4: gpu=4 of the second host
///     mesh->to_string();
///         // "trainers-13Se1Maqzryj[8]:tcp:h1:7420,tcp:h2:7420@host=2/4,gpu=4/1"
///
/// Two numbers name a proc. Its *create rank* is its position in the mesh as it was made; it stands
/// in the proc's name and never changes. Its *ordinal* is its position in this view,
/// 0..num_ranks()-1; slicing changes it. In a mesh that was not sliced both are the same.
///
/// Where the ranks lie. The mesh as made has N ranks on H hosts, in blocks, in rank order: with q =
/// N / H and r = N % H the first r hosts have q+1 ranks, the others q. For extents made of host
/// axes and per-host axes H divides N, and host h has the ranks h*q .. (h+1)*q-1.
class ProcMeshRef {
 public:
  /// Makes a view of the mesh as made, which has `root_ranks` ranks on `hosts`, the ranks in
  /// `region`. `hosts` is the list of the mesh as made, also for a slice; a host may stand in it
  /// more than once. Errors: configuration_error when there are ranks but no hosts, or more than 63
  /// bits of ranks; out_of_range when `region` has a rank that is not below root_ranks.
  [[nodiscard]] static Result<ProcMeshRef> make(Name mesh, std::vector<HostAddr> hosts,
                                                std::uint64_t root_ranks, Region region);
  /// The whole mesh of that extent. Errors: configuration_error as above.
  [[nodiscard]] static Result<ProcMeshRef> make(Name mesh, std::vector<HostAddr> hosts,
                                                const Extent& extent);

  /// Reads what to_string() printed. Errors: parse_error, and those of make().
  [[nodiscard]] static Result<ProcMeshRef> parse(std::string_view text);

  const Name& mesh() const noexcept { return mesh_; }  ///< The mesh's name, with its uuid.
  /// All hosts of the mesh as made, in order. Hosts without a rank in this view are among them.
  const std::vector<HostAddr>& hosts() const noexcept { return *hosts_; }
  /// Ranks of the mesh as made.
  std::uint64_t root_ranks() const noexcept { return root_ranks_; }
  /// The create ranks in this view, and how they are arranged.
  const Region& region() const noexcept { return region_; }
  /// Ranks in this view.
  std::uint64_t num_ranks() const noexcept { return region_.num_ranks(); }

  /// In the mesh as made: the index in hosts() of the host of that rank. Errors: out_of_range.
  [[nodiscard]] Result<std::uint64_t> host_index_of(std::uint64_t create_rank) const;
  /// In the mesh as made: the ranks on hosts()[host_index]; may be empty. Errors: out_of_range.
  [[nodiscard]] Result<RankBlock> block_of(std::uint64_t host_index) const;
  /// In the mesh as made: the address of that rank, even if it is not in this view. Errors:
  /// out_of_range.
  [[nodiscard]] Result<ProcId> proc_of(std::uint64_t create_rank) const;

  /// In this view: the create rank at that ordinal. Errors: out_of_range.
  [[nodiscard]] Result<std::uint64_t> create_rank(std::uint64_t ordinal) const;
  /// In this view: the ordinal of that create rank. Errors: not_exist when it is not in this view.
  [[nodiscard]] Result<std::uint64_t> ordinal_of(std::uint64_t create_rank) const;
  /// In this view: the address of the proc at that ordinal. Errors: out_of_range.
  [[nodiscard]] Result<ProcId> proc_at(std::uint64_t ordinal) const;
  /// The same, under the name that View and other code for whatever is ranked know
  /// (meshbus/view.h).
  [[nodiscard]] Result<ProcId> get(std::uint64_t ordinal) const { return proc_at(ordinal); }

  /// The slice begin, begin+step, ... below `end` (clamped to the axis' size; none = all) of one
  /// axis; keeps the axis. Errors: those of Region::range.
  [[nodiscard]] Result<ProcMeshRef> range(std::string_view label, std::uint64_t begin,
                                          std::optional<std::uint64_t> end = std::nullopt,
                                          std::uint64_t step = 1) const;
  /// The slice at one index of an axis; drops the axis. Errors: those of Region::at.
  [[nodiscard]] Result<ProcMeshRef> at(std::string_view label, std::uint64_t index) const;
  /// The same mesh seen through another region of its create ranks. Errors: as make().
  [[nodiscard]] Result<ProcMeshRef> sliced(Region region) const;

  /// `NAME[ROOT_RANKS]:HOST{,HOST}@REGION`
  std::string to_string() const;

  friend bool operator==(const ProcMeshRef& a, const ProcMeshRef& b);
  /// By mesh, ranks, region, hosts: an order for maps and sets.
  friend std::strong_ordering operator<=>(const ProcMeshRef& a, const ProcMeshRef& b);
  friend std::ostream& operator<<(std::ostream& out, const ProcMeshRef& mesh);

 private:
  ProcMeshRef(Name mesh, std::shared_ptr<const std::vector<HostAddr>> hosts,
              std::uint64_t root_ranks, Region region)
      : mesh_(std::move(mesh)),
        hosts_(std::move(hosts)),
        root_ranks_(root_ranks),
        region_(std::move(region)) {}

  Name mesh_;
  /// Shared between slices; never null, never changed.
  std::shared_ptr<const std::vector<HostAddr>> hosts_;
  std::uint64_t root_ranks_;
  Region region_;
};

}  // namespace meshbus

template <>
struct std::hash<meshbus::ProcMeshRef> {
  std::size_t operator()(const meshbus::ProcMeshRef& mesh) const noexcept;
};
