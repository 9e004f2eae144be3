#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "wire/ranks_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// What happened to the procs of one mesh and is to be told: a value, which holds nothing of the
/// procs themselves.
struct HostUpdate {
  std::vector<wire::RankState> ranks = {};
  std::vector<std::unique_ptr<wire::ExitReportT>> exit_reports = {};
  std::vector<wire::LaunchTimes> launch = {};
  std::vector<wire::RankTrouble> troubles = {};
  /// For each Trouble::stuck in `troubles`.
  std::vector<std::unique_ptr<wire::StuckHandlerT>> stuck = {};

  bool is_empty() const noexcept {
    return ranks.empty() && exit_reports.empty() && launch.empty() && troubles.empty();
  }
};

/// Collects the updates of one mesh until they are sent. Filled by ProcTable, emptied by Publisher.
class MeshUpdates {
 public:
  void add(const wire::RankState& state) { update_.ranks.push_back(state); }
  void add(const wire::LaunchTimes& times) { update_.launch.push_back(times); }
  void add(const wire::RankTrouble& trouble) { update_.troubles.push_back(trouble); }
  void add(const wire::StuckHandlerT& stuck) {
    update_.stuck.push_back(std::make_unique<wire::StuckHandlerT>(stuck));
  }
  void add(const wire::ExitReportT& exit_report) {
    update_.exit_reports.push_back(std::make_unique<wire::ExitReportT>(exit_report));
  }
  /// The mesh was resized, and that is for subscribers to know.
  void set_resized() noexcept { is_resized_ = true; }
  bool take_resized() noexcept { return std::exchange(is_resized_, false); }
  /// Another owner answers for the mesh, or none does.
  void set_owner_changed() noexcept { is_owner_changed_ = true; }

  bool is_empty() const noexcept { return update_.is_empty(); }
  HostUpdate take() { return std::exchange(update_, {}); }
  bool take_owner_changed() noexcept { return std::exchange(is_owner_changed_, false); }

 private:
  HostUpdate update_;
  bool is_owner_changed_ = false;
  bool is_resized_ = false;
};

}  // namespace meshbus::host
