#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/lifecycle/drain.h"
#include "wire/forward.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

/// Who wants a scope drained, and how.
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
  /// For all scopes together; an operator who needs more can drain the host.
  static constexpr std::size_t most = 256;

  /// `host`: for people.
  Drains(Reactor& reactor, ProcTable& table, ProcEnding& ending, std::string host)
      : reactor_(reactor), table_(table), ending_(ending), host_(std::move(host)) {}

  /// Begins, or joins the one of that scope. `done` (may be null) is told when it is over. Errors:
  /// queue_full.
  Result<void> start(DrainOrder order, Drain::Done done);
  /// Ends the hold of exactly that scope.
  void resume(const DrainScope& scope);
  /// Whether something of that mesh may be started. Errors: refused, saying who does not want it
  /// and why.
  Result<void> check_start(std::string_view mesh, const ProcId& owner) const;

  void on_ended(const Proc& proc, bool ok);
  void on_gone(const Proc& proc);
  /// Goes on. Call it at the end of each turn.
  void pump();

  /// For GetHost.
  std::vector<wire::DrainT> to_wire() const;
  /// What the next agent must know, when it has changed since this was last called.
  std::optional<std::vector<wire::LedgerDrainT>> take_changed();

 private:
  struct Entry {
    DrainOrder order;
    std::unique_ptr<Drain> work;  // null: it is done, and held
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
