#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "meshbus/site.h"

namespace meshbus::cli {

/// What rows are ordered by, below each host and mesh.
enum class SortKey : std::uint8_t { name, state, cpu, memory, attempts, queue };
/// "name"
std::string_view to_string(SortKey key) noexcept;

/// Which rows of a site are shown, and in which order.
struct TreeOptions {
  SortKey sort = SortKey::name;
  bool is_reversed = false;
  /// Words that a row, or one below or above it, must have; in any case of letters.
  std::string filter = {};
  /// Keys of rows whose rows below are hidden.
  std::set<std::string> folded = {};
  /// Also ranks that ended in order. Those that failed are always shown.
  bool has_ended = false;
};

/// What a row adds up.
struct Figures {
  std::uint64_t ranks = 0;
  std::uint64_t live = 0;
  std::uint64_t ready = 0;
  std::uint64_t failed = 0;
  std::uint64_t troubled = 0;
  double cpu = 0;
  std::chrono::microseconds cpu_time{0};
  std::uint64_t memory = 0;
  std::uint64_t restarts = 0;
  std::uint64_t queued = 0;

  void add(const Figures& other);
};
Figures figures_of(const SiteRank& rank);

/// One row: a host, the part of a mesh that is on it, or a rank. Points into the view.
struct TreeRow {
  enum class Kind : std::uint8_t { host, mesh, rank };
  Kind kind = Kind::host;
  /// Stays the same while the site changes.
  std::string key;
  const SiteHost* host = nullptr;
  const SiteMesh* mesh = nullptr;
  const SiteRank* rank = nullptr;
  /// Sums of the ranks below, hidden ones included.
  Figures figures;
  /// Mesh: the ranks of it on this host.
  RankSet ranks = {};
  bool is_folded = false;
};

/// Hosts, below each its meshes, below each its ranks. Pure; valid as long as the view.
std::vector<TreeRow> make_rows(const SiteView& view, const TreeOptions& options);

}  // namespace meshbus::cli
