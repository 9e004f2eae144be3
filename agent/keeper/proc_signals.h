#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

#include "agent/keeper/agent_channel.h"
#include "agent/keeper/hold_plan.h"
#include "agent/keeper/proc_table.h"
#include "agent/keeper/signal_waves.h"

namespace meshbus::keeper {

/// Sends signals to procs as the agent asks for them, in waves, and holds procs that are disturbed
/// on purpose: these are continued when their time is over, also when the agent that asked is gone.
/// One thread. Borrows table and agent.
class ProcSignals {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ProcSignals(ProcTable& table, AgentChannel& agent, std::size_t procs_per_wave)
      : table_(table), agent_(agent), waves_(procs_per_wave) {}

  void add(SignalWaves::Entry entry) { waves_.add(entry); }
  /// Whether signals wait to be sent.
  bool is_waiting() const noexcept { return !waves_.empty(); }
  /// When advance() has something to do; Time::max(): never.
  Time due() const;
  /// Sends the next wave, if it is due, and stops and continues those that are held.
  void advance(Time now);
  /// The process is about to be buried.
  void on_end(const ProcTable::Process& process);

 private:
  void send(const Signal& signal);
  void begin(const Hold& hold, Time now);
  void take_step(const HoldPlan::Step& step);

  ProcTable& table_;
  AgentChannel& agent_;
  SignalWaves waves_;
  HoldPlan plan_;
  /// The descendants of those that are stopped.
  std::unordered_map<std::uint64_t, std::vector<pid_t>> stopped_;
};

}  // namespace meshbus::keeper
