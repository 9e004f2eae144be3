#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "common/bus/bus.h"
#include "meshbus/status_mesh.h"
#include "wire/forward.h"

namespace meshbus::host {

/// What the status of a proc in that state is (spec 4.2), without its words.
Status::Kind status_kind(wire::ProcState state);
/// The status with its words, as far as they are known: the full reason of a failure is known when
/// the exit report is there.
Status status_of(const Proc& proc);
/// The status of each of these ranks (ascending); NotExist for those that are not there. `mesh` may
/// be null. No more than `bytes` of words.
StatusOverlay statuses_of(Mesh* mesh, const std::vector<RankBlock>& ranks,
                          std::size_t bytes = std::size_t{256} * 1024);

/// Requests that wait until ranks have reached a status (WaitRankStatus in schemas/lifecycle.fbs).
/// Each request looks at each rank once, however often the mesh changes. Lives on the reactor's
/// thread.
class RankWaits {
 public:
  /// Requests that may wait on one host.
  static constexpr std::size_t kMost = 4096;
  /// Intervals of ranks of all of them together: 16 MiB.
  static constexpr std::size_t kMostIntervals = 1u << 20;

  /// `on_idle`: no request of that asker waits any more.
  RankWaits(Bus& bus, ProcTable& table, std::string host,
            std::function<void(const ProcId&)> on_idle)
      : bus_(bus), table_(table), host_(std::move(host)), on_idle_(std::move(on_idle)) {}
  ~RankWaits();
  RankWaits(const RankWaits&) = delete;
  RankWaits& operator=(const RankWaits&) = delete;

  struct Wanted {
    std::string mesh;
    std::vector<RankBlock> ranks;  ///< Ascending, not empty.
    Status::Kind minimum = Status::Kind::running;
    std::chrono::milliseconds limit{0};
    ProcId asker;
  };
  /// Answers now, or when it has come so far; true: the asker waits from now on. Errors:
  /// queue_full.
  Result<bool> add(const Request& request, Wanted wanted);
  /// Answers with the statuses as they are now.
  void answer(const Request& request, const std::string& mesh, const std::vector<RankBlock>& ranks);

  /// Something of that mesh has changed: flush() checks what waits for it.
  void mark(const Mesh& mesh) {
    if (!waits_.empty()) marked_.insert(mesh.name);
  }
  void flush();
  /// The connection of that asker has ended.
  void drop(const std::string& asker);
  bool has(const std::string& asker) const { return askers_.contains(asker); }

 private:
  struct Wait {
    Request request;
    Wanted wanted;
    Reactor::TimerId timer = 0;
    /// The first rank that has not got there yet, and its block.
    std::size_t block = 0;
    std::uint64_t rank = 0;
  };
  using Waits = std::multimap<std::string, Wait>;  ///< By mesh.

  bool is_done(Wait& wait) const;
  Waits::iterator remove(Waits::iterator wait);

  Bus& bus_;
  ProcTable& table_;
  std::string host_;
  std::function<void(const ProcId&)> on_idle_;
  Waits waits_;
  std::size_t intervals_ = 0;
  std::map<std::string, std::size_t> askers_;
  std::set<std::string> marked_;
};

}  // namespace meshbus::host
