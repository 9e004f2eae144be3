#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/run_job.h"
#include "cli/run/spare_plan.h"
#include "meshbus/client.h"

namespace meshbus::cli {

/// An attempt of a job that ended because hosts were lost or drained, and was followed by another
/// one.
struct FormerAttempt {
  std::string mesh;                        ///< Its name, with the uuid.
  std::vector<std::string> lost_hosts;     ///< Their addresses.
  std::vector<std::string> drained_hosts;  ///< Those that were drained, and are held.
  std::string reason;                      ///< How the first of them was lost, or why drained.
};

/// The hosts of a run, and those of them that its current attempt uses. They outlive the attempts.
class JobHosts {
 public:
  /// Makes the context, and finds out how many hosts there will be; starts nothing. Errors:
  /// configuration_error, parse_error.
  Result<void> find(const RunArguments& arguments);
  /// Starts them, or finds those that run. Errors: those of HostMesh.
  Result<void> start(const RunArguments& arguments);
  /// No attempt uses these. Errors: host_unreachable: there are no spares, or too few.
  Result<void> leave_out(const std::vector<HostAddr>& hosts);
  /// Chooses the hosts of the current attempt. After a loss it first waits until nothing of the
  /// former attempt can run any more: a host that is only silent stops its procs when their lease
  /// is over. With --wait-hosts it waits for more hosts if there are too few. Errors:
  /// host_unreachable: too few hosts answer.
  Result<void> choose();
  /// The attempt has ended; when that is because hosts were lost, or drained for longer (`drain
  /// --hold`), and enough others are left, the next attempt is the current one now. Returns what is
  /// to be said of it.
  std::optional<std::string> begin_next(const ProcMeshRef& mesh, const MeshOutcome& outcome,
                                        std::chrono::milliseconds grace);

  Context& context() { return *context_; }
  /// All of them, spares too.
  HostMesh& all() { return *all_; }
  /// Those of the current attempt.
  HostMesh& chosen() { return chosen_ ? *chosen_ : *all_; }
  /// Those of the current attempt with these numbers; null: `numbers` is empty, which means all.
  /// Errors: those of HostMesh::attach().
  Result<std::unique_ptr<HostMesh>> some(const std::vector<std::uint64_t>& numbers);
  /// Those that the current attempt does not use, and that are neither lost nor drained.
  std::vector<HostAddr> spares() const;
  /// The most hosts that an attempt may use.
  std::uint64_t most() const { return most_; }
  /// From 0.
  std::uint64_t attempt() const { return former_.size(); }
  const std::vector<FormerAttempt>& former() const { return former_; }

 private:
  /// What hosts answer, by number.
  using Reports = std::map<std::uint64_t, HostReport>;

  Result<void> look_at_hosts();
  /// Asks the hosts that are not lost.
  Result<Reports> ask_left() const;
  Result<Reports> ask_all(std::chrono::milliseconds limit) const;
  /// Sets the host aside when it is drained and held, or takes it back.
  void look_for_drain(std::uint64_t host, const HostReport& report);
  /// Sets aside what is drained now, and adds the hosts whose drain has ended the ranks there.
  void find_drained(const MeshOutcome& outcome, FormerAttempt& former);
  Result<void> wait_until_clear();
  /// Until an attempt has as many hosts as it can use, or no more can come, or wait_ is over.
  Result<void> wait_for_hosts();
  Result<HostMesh> attach(const RunArguments& arguments);

  std::unique_ptr<Context> context_;
  std::vector<RemoteHost> remote_;
  std::uint64_t most_ = 0;
  /// How long hosts are waited for that do not answer.
  std::chrono::milliseconds wait_{0};
  std::unique_ptr<HostMesh> all_;
  /// Only with spares.
  std::unique_ptr<HostMesh> chosen_;
  std::optional<SparePlan> plan_;
  std::vector<FormerAttempt> former_;
};

}  // namespace meshbus::cli
