#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/lifecycle/drain.h"
#include "wire/forward.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

/// A request to drain a scope.
struct DrainOrder {
  DrainScope scope;
  StopOrder stop;
  std::size_t in_flight = 1;
  bool hold = false;  ///< Nothing is started in it afterwards either, until resume().
};

/// The drains of one host, one for each scope: those under way and those that are held (DrainHost
/// in schemas/lifecycle.fbs). Lives on the reactor's thread.
class Drains {
 public:
  /// Drains under way or held on one host; an operator who needs more can drain the whole host.
  static constexpr std::size_t kMost = 256;

  /// `host`: for people.
  Drains(Reactor& reactor, ProcTable& table, ProcEnding& ending, std::string host)
      : reactor_(reactor), table_(table), ending_(ending), host_(std::move(host)) {}

  /// Begins a drain, or joins the one of that scope. `done` (may be null) gets the outcome. Errors:
  /// queue_full.
  Result<void> start(DrainOrder order, Drain::Done done);
  /// Ends the hold of exactly that scope.
  void resume(const DrainScope& scope);
  /// Whether procs of that mesh may be started. Errors: refused, with the requester of the drain
  /// and its reason.
  Result<void> check_start(std::string_view mesh, const ProcId& owner) const;

  void on_ended(const Proc& proc, bool ok);
  void on_empty(const Proc& proc);
  /// Ends the next procs that there is room for. Call it at the end of each turn.
  void pump();

  /// For GetHost.
  std::vector<wire::DrainT> to_wire() const;
  /// What the next agent must know, when it has changed since this was last called.
  std::optional<std::vector<wire::LedgerDrainT>> take_changed();

 private:
  struct Entry {
    DrainOrder order;
    std::unique_ptr<Drain> work;  ///< Null: it is done, and held.
  };
  Entry* find(const DrainScope& scope);

  Reactor& reactor_;
  ProcTable& table_;
  ProcEnding& ending_;
  std::string host_;
  std::vector<Entry> entries_;
  bool is_changed_ = false;
};

}  // namespace meshbus::host
