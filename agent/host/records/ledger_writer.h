#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/host/model/proc_table.h"
#include "agent/host/records/ledger.h"
#include "wire/forward.h"
#include "wire/ledger_generated.h"

namespace meshbus::host {

/// Writes down what happens to meshes and procs, for the agent that takes over from this one. Lives
/// on the reactor's thread.
class LedgerWriter {
 public:
  LedgerWriter(Ledger ledger, ProcTable& table) : ledger_(std::move(ledger)), table_(table) {}

  const Ledger& ledger() const noexcept { return ledger_; }
  /// A request was accepted; `entry` is what request_entry() made of it.
  void add_request(Mesh& mesh, std::string entry);
  /// These are the drains from now on.
  void set_drains(std::vector<wire::LedgerDrainT> drains);
  /// This is the owner of the host from now on.
  void set_host_owner(wire::LedgerMeshT owner);
  /// These are the terms of pairs of controllers from now on.
  void set_terms(std::vector<wire::LedgerTermT> terms);
  /// Writes down what was touched, before the keeper or an owner is told.
  void write();

  /// A request as it is in the ledger.
  static std::string request_entry(const std::string& mesh, const wire::SpawnProcs& request);
  /// The same entry, with how its ranks are bound.
  static std::string with_bindings(std::string entry, const WireBindings& bindings);

 private:
  void write_snapshot();
  void add(const Mesh& mesh, bool with_state, const std::vector<Proc*>& procs);

  Ledger ledger_;
  ProcTable& table_;
  std::vector<std::string> requests_;
  void write_host();

  wire::LedgerHostT host_;
  std::string host_entry_;  ///< Empty: there is nothing to say about the host.
  bool is_host_touched_ = false;
};

/// What an agent has left of one mesh.
struct LeftMesh {
  std::vector<std::string> requests;  ///< Entries.
  std::map<std::uint64_t, wire::LedgerProcT> procs;
  std::optional<wire::LedgerMeshT> state;
};
/// The owner of the host that was noted last.
std::optional<wire::LedgerMeshT> read_host_owner(const Ledger& ledger);
/// The terms of pairs of controllers that were noted last.
std::vector<wire::LedgerTermT> read_terms(const Ledger& ledger);
/// The drains that were noted last.
std::vector<wire::LedgerDrainT> read_drains(const Ledger& ledger);
/// The meshes that an agent has left, by name.
std::map<std::string, LeftMesh> read_ledger(const Ledger& ledger);

}  // namespace meshbus::host
