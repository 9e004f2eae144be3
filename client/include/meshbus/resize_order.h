#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshbus/address.h"
#include "meshbus/rank_report.h"
#include "meshbus/result.h"

namespace [[gnu::visibility("default")]] meshbus {

struct ResizeReport;

/// An order for another size that somebody sends to the owner of a mesh (HostMesh::grow_mesh(),
/// `meshbus grow`). Only valid during Handlers::on_resize_order, on the thread that calls it.
class ResizeOrder {
 public:
  class Impl;
  explicit ResizeOrder(Impl& impl) : impl_(impl) {}  ///< For the library.
  ResizeOrder(const ResizeOrder&) = delete;
  ResizeOrder& operator=(const ResizeOrder&) = delete;

  /// Whether ranks are to come; otherwise they are to go.
  bool is_growth() const noexcept;
  /// Where a block is to come, one for each entry. Empty: the launcher may choose.
  const std::vector<HostAddr>& hosts() const noexcept;
  /// How many blocks come or go.
  std::uint64_t blocks() const noexcept;
  /// The ranks that are to go; none when the mesh has not so many blocks.
  RankSet leaving() const;
  /// The name of the sender, for people. Only its key is proven: see the audit trail of the hosts.
  const std::string& requester() const noexcept;

  /// Does it, as ProcMesh::grow() or ProcMesh::shrink() does. `hosts`: with a growth, where the
  /// blocks come instead of hosts(); empty: as ordered. Errors: those of the two; proc_spawn_error
  /// also when the time of the order is over.
  [[nodiscard]] Result<ResizeReport> carry_out(std::vector<HostAddr> hosts = {}) const;

 private:
  Impl& impl_;
};

/// What came of an order for another size.
struct OrderedResize {
  std::uint64_t size = 0;            ///< The ranks of the mesh now.
  RankSet ranks = {};                ///< Those that came, or went.
  std::vector<HostAddr> hosts = {};  ///< The host of each block of them, in order.
};

}  // namespace meshbus
