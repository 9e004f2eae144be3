#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/procs/proc_ending.h"
#include "agent/host/procs/shutdown_queue.h"

namespace meshbus::host {

/// What became of a shutdown.
struct ShutdownOutcome {
  std::size_t attempted = 0;
  std::size_t failed = 0;
  std::string detail;
};

/// Ends every proc of a host, so many at a time, and waits for their descendants (spec 5.3). Lives on the reactor's thread.
class HostShutdown {
 public:
  using Done = std::function<void(const ShutdownOutcome&)>;
  HostShutdown(Reactor& reactor, ProcTable& table, ProcEnding& ending, StopOrder order, std::size_t in_flight, Done done);
  ~HostShutdown();
  HostShutdown(const HostShutdown&) = delete;
  HostShutdown& operator=(const HostShutdown&) = delete;

  /// Somebody else wants it too: hastens it, and gets the same outcome.
  void join(const StopOrder& order, std::size_t in_flight, Done done);
  void on_ended(const Proc& proc, bool ok);
  void on_gone(const Proc& proc) { lingering_.erase(proc.id); }
  /// Goes on. Call it at the end of each turn.
  void pump();

 private:
  void finish();

  Reactor& reactor_;
  ProcTable& table_;
  ProcEnding& ending_;
  StopOrder order_;
  ShutdownQueue queue_;
  std::set<std::uint64_t> lingering_;  // ended, but with descendants
  Reactor::TimerId timer_ = 0;
  std::optional<ShutdownOutcome> outcome_;
  std::vector<Done> waiting_;
};

}  // namespace meshbus::host
