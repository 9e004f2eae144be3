#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/name.h"
#include "meshbus/region.h"
#include "meshbus/result.h"

/// A reference to a set of hosts.
///
///     using namespace meshbus;
///     HostMeshRef mesh =
///         *HostMeshRef::parse("test:local:1,local:2,local:3,local:4@replica=2/2,host=2/1");
///     HostMeshRef second = *mesh.range("replica", 1, 2);
///     std::cout << second;               // test:local:3,local:4@2+replica=1/2,host=2/1
///     second.hosts()[0];                 // local:3: the host of ordinal 0
///     *second.get(1);                    // local:4: the host of ordinal 1
///     *mesh.find(3);                     // local:4: the host of base rank 3
///     for (const auto& [point, host] : View(mesh)) use(point, host);  // needs meshbus/view.h
///     HostMeshRef::parse("test:local:1@x=2/1").error();
///         // invalid_rank_cardinality: ... expected 2, found 1
namespace [[gnu::visibility("default")]] meshbus {

/// Names a set of hosts: a name, a region, and the host of each of its ranks, in its order; a host
/// may occur several times. A plain value: copy it, print it, send it to another process. Keeps
/// nothing alive.
///
/// Text: `NAME:ADDR{,ADDR}@REGION`. The name ends at the first ':', the region starts after the
/// last '@' outside quotes. No hosts: `NAME:@x=0/1`.
class HostMeshRef {
 public:
  /// Errors: invalid_rank_cardinality when there is not one host per rank.
  [[nodiscard]] static Result<HostMeshRef> make(Name name, Region region,
                                                std::vector<HostAddr> hosts);
  /// Hosts in one axis, `host`, in this order.
  [[nodiscard]] static Result<HostMeshRef> of_hosts(Name name, std::vector<HostAddr> hosts);
  /// The same of the ids of their agents: `tcp:h1:7420,service,agent[0]`. Errors: parse_error, also
  /// for an actor that is not the agent of a host; it says which text is wrong, from 0.
  [[nodiscard]] static Result<HostMeshRef> of_agents(Name name,
                                                     const std::vector<std::string>& agents);
  /// Reads what to_string() printed. Errors: parse_error with the position as a byte offset from 0;
  /// invalid_rank_cardinality.
  [[nodiscard]] static Result<HostMeshRef> parse(std::string_view text);
  [[nodiscard]] static Result<HostMeshRef> parse(text::Scanner part);

  const Name& name() const noexcept { return name_; }        ///< The name of the mesh.
  const Region& region() const noexcept { return region_; }  ///< How its hosts are arranged.
  /// In the order of the region.
  const std::vector<HostAddr>& hosts() const noexcept { return hosts_; }
  std::uint64_t num_ranks() const noexcept { return region_.num_ranks(); }
  /// The host of an ordinal; null when there are not so many. Valid while this reference is.
  const HostAddr* get(std::uint64_t ordinal) const noexcept {
    return ordinal < hosts_.size() ? &hosts_[static_cast<std::size_t>(ordinal)] : nullptr;
  }
  /// The host of a base rank; null when it is not in the region. Valid while this reference is.
  const HostAddr* find(std::uint64_t base_rank) const noexcept;

  /// A slice, as Region::range() and Region::at(), with their errors: the hosts that are left,
  /// under the same name.
  [[nodiscard]] Result<HostMeshRef> range(std::string_view label, std::uint64_t begin,
                                          std::optional<std::uint64_t> end = std::nullopt,
                                          std::uint64_t step = 1) const;
  [[nodiscard]] Result<HostMeshRef> at(std::string_view label, std::uint64_t index) const;
  /// The hosts of the base ranks of another region, in its order. Errors: out_of_range, naming a
  /// rank that is not here.
  [[nodiscard]] Result<HostMeshRef> sliced(const Region& region) const;

  /// `test:local:3,local:4@2+replica=1/2,host=2/1`
  std::string to_string() const;

  /// By name, region, hosts: an order for maps and sets.
  friend auto operator<=>(const HostMeshRef&, const HostMeshRef&) = default;
  friend bool operator==(const HostMeshRef&, const HostMeshRef&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HostMeshRef& mesh);

 private:
  HostMeshRef(Name name, Region region, std::vector<HostAddr> hosts)
      : name_(std::move(name)), region_(std::move(region)), hosts_(std::move(hosts)) {}

  Name name_;
  Region region_;
  std::vector<HostAddr> hosts_;
};

}  // namespace meshbus

template <>
struct std::hash<meshbus::HostMeshRef> {
  std::size_t operator()(const meshbus::HostMeshRef& mesh) const noexcept;
};
