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

/// What the status of a proc in that state is (spec 4.2); without its words.
Status::Kind status_kind(wire::ProcState state);
/// The same with its words, as far as they are known: why it failed is fully said only when its
/// exit report is there.
Status status_of(const Proc& proc);
/// Of every one of these ranks (ascending); NotExist for those that are not there. `mesh` may be
/// null. No more than `bytes` of words.
StatusOverlay statuses_of(Mesh* mesh, const std::vector<RankBlock>& ranks,
                          std::size_t bytes = std::size_t{256} * 1024);

/// Those who wait until ranks have got somewhere (WaitRankStatus in schemas/lifecycle.fbs). Each of
/// them looks at each rank once, however often the mesh changes. Lives on the reactor's thread.
class RankWaits {
 public:
  /// Open ones on one host.
  static constexpr std::size_t most = 4096;
  /// Intervals of ranks of all of them together: 16 MiB.
  static constexpr std::size_t most_intervals = 1u << 20;

  /// `on_idle`: nobody of that name waits any more.
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
  /// How they stand now.
  void answer(const Request& request, const std::string& mesh, const std::vector<RankBlock>& ranks);

  /// Something of that mesh has changed: flush() looks.
  void mark(const Mesh& mesh) {
    if (!waits_.empty()) marked_.insert(mesh.name);
  }
  void flush();
  /// That asker is gone.
  void drop(const std::string& asker);
  bool has(const std::string& asker) const { return askers_.contains(asker); }

 private:
  struct Wait {
    Request request;
    Wanted wanted;
    Reactor::TimerId timer = 0;
    // The first rank that has not got there yet.
    std::size_t block = 0;
    std::uint64_t rank = 0;
  };
  using Waits = std::multimap<std::string, Wait>;  // by mesh

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
