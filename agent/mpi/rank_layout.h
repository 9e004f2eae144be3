#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "meshbus/proc_mesh_ref.h"

namespace meshbus::mpi {

/// Which ranks of an MPI job are on which host: in blocks, as in ProcMeshRef. A plain value.
class RankLayout {
 public:
  /// `hosts` is at least 1.
  RankLayout(std::uint64_t ranks, std::uint64_t hosts) : ranks_(ranks), hosts_(hosts) {}

  std::uint64_t ranks() const noexcept { return ranks_; }
  std::uint64_t hosts() const noexcept { return hosts_; }
  RankBlock block_of(std::uint64_t host) const noexcept;
  std::uint64_t host_of(std::uint64_t rank) const noexcept;
  /// The hosts that have ranks, ascending.
  std::vector<std::uint64_t> used_hosts() const;
  /// "(vector,(0,2,3),(2,1,2))": the form in which MPICH reads which ranks share a host, as triples
  /// of first host, hosts, and ranks on each of them.
  std::string process_mapping() const;

 private:
  std::uint64_t ranks_;
  std::uint64_t hosts_;
};

}  // namespace meshbus::mpi
