#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "agent/proc/runtime/world.h"

namespace meshbus::mesh_proc {

/// Which rank of a mesh this proc is, and the rank of each other proc by key: that table is made
/// when it is asked first, and again when the mesh was resized. Any thread.
class RankIndex {
 public:
  /// `world` must outlive this. `create_rank`: this proc's.
  RankIndex(const World& world, std::uint64_t create_rank)
      : world_(world), own_(world.mesh().ordinal_of(create_rank).value_or(create_rank)) {}
  std::uint64_t own() const noexcept { return own_; }
  std::optional<std::uint64_t> find(std::uint64_t proc_key);

 private:
  struct Table {
    const ProcMeshRef* mesh = nullptr;
    std::unordered_map<std::uint64_t, std::uint64_t> ranks = {};
  };
  const Table& make(const ProcMeshRef& mesh);

  const World& world_;
  const std::uint64_t own_;
  std::mutex mutex_;
  std::deque<Table> tables_;  ///< Guarded by mutex_. They stay: other threads may be reading one.
  std::atomic<const Table*> last_{nullptr};
};

}  // namespace meshbus::mesh_proc
