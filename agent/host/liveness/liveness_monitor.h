#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>

#include "agent/host/liveness/failure_detector.h"
#include "agent/host/model/proc_table.h"
#include "common/bus/bus.h"
#include "common/config/config.h"

namespace meshbus::host {

/// Finds out which mesh procs of this host are slow or frozen, by their heartbeats to their agent,
/// or have a handler that is stuck, by what they say (Proc::trouble), and publishes that. Nothing
/// is done to them for that. Plain procs have no heartbeat and are not watched. Lives on the
/// reactor's thread.
class LivenessMonitor {
 public:
  /// `config`: the settings of this host.
  LivenessMonitor(Bus& bus, ProcTable& table, Config config, std::string host);
  ~LivenessMonitor();
  LivenessMonitor(const LivenessMonitor&) = delete;
  LivenessMonitor& operator=(const LivenessMonitor&) = delete;

  /// A sign of life of that proc has come.
  void on_heartbeat(Proc& proc);
  /// The same, with what the proc says of a handler that does not return.
  void on_heartbeat(Proc& proc, const wire::ProcHeartbeat& message);
  /// Watches the procs that are there already: they had another agent before.
  void add_live();

 private:
  FailureDetector& find(const Proc& proc);
  void arm();
  void on_tick();
  void judge(Proc& proc, const FailureDetector& detector);
  /// Asks our own broker for an answer: it shows whether the way was clear.
  void probe_way();
  void on_clear(Reactor::Time asked);

  Bus& bus_;
  ProcTable& table_;
  Config config_;
  std::string host_;
  std::unordered_map<std::uint64_t, FailureDetector> watched_;  ///< By Proc::id.
  /// The settings that were looked up last: procs of one mesh have the same.
  struct Pace {
    std::string of;
    std::chrono::milliseconds heartbeat{0};
    FailureDetector::Limits limits{};
  } pace_;
  /// Between two checks: a quarter of the shortest heartbeat interval.
  Reactor::Duration interval_;
  Reactor::TimerId timer_ = 0;
  Reactor::Time due_{};
  bool is_probing_ = false;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::host
