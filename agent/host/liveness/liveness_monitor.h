#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "agent/host/liveness/failure_detector.h"
#include "agent/host/model/proc_table.h"
#include "common/bus/bus.h"
#include "common/config/config.h"

namespace meshbus::host {

/// Finds out which mesh procs of this host are slow or frozen, by what they say to their agent
/// (Proc::trouble, Mesh::troubles). Nothing is done to them for that. Plain procs say nothing, and
/// are not watched. Lives on the reactor's thread.
class LivenessMonitor {
 public:
  /// `config`: of this host. `on_changed`: there is something in Mesh::troubles.
  LivenessMonitor(Bus& bus, ProcTable& table, Config config, std::string host,
                  std::function<void(Mesh&)> on_changed);
  ~LivenessMonitor();
  LivenessMonitor(const LivenessMonitor&) = delete;
  LivenessMonitor& operator=(const LivenessMonitor&) = delete;

  /// It has said something.
  void on_sign(Proc& proc);
  /// Those that are there already: they spoke to another agent before.
  void add_live();

 private:
  FailureDetector& find(const Proc& proc);
  void arm();
  void on_tick();
  void judge(Proc& proc, const FailureDetector& signs);
  void ask_way();
  void on_clear(Reactor::Time asked);

  Bus& bus_;
  ProcTable& table_;
  Config config_;
  std::string host_;
  std::function<void(Mesh&)> on_changed_;
  std::unordered_map<std::uint64_t, FailureDetector> watched_;  // by Proc::id
  /// What was last looked up: procs of one mesh have the same.
  struct Pace {
    std::string of;
    std::chrono::milliseconds heartbeat{0};
    FailureDetector::Limits limits{};
  } pace_;
  /// Between two looks: a quarter of the shortest time between two signs.
  Reactor::Duration interval_;
  Reactor::TimerId timer_ = 0;
  Reactor::Time due_{};
  bool is_asking_ = false;
  /// Lets an answer see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::host
