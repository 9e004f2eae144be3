#pragma once

#include <memory>
#include <string>

#include "agent/host/ownership/host_owner.h"
#include "agent/host/ownership/pair_terms.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/request_checks.h"

namespace meshbus::host {

/// Grants terms to the controllers of pairs, and gives what they own here to the one that acts
/// (docs/decisions/0064-one-of-several-controllers-acts.md). PairTerm decides. Lives on the
/// reactor's thread.
class PairService {
 public:
  /// What it works with; all of it outlives it.
  struct Parts {
    Bus& bus;
    MeshProcs& procs;
    RequestChecks& checks;
    OwnershipService& ownership;
    HostOwner& host;
    PairTerms& terms;
  };
  explicit PairService(const Parts& parts) : parts_(parts) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<PairService>& service);

  /// Goes on with what another agent has left.
  void take_over();

 private:
  void on_claim_term(const Request& request, const wire::ClaimTerm& message);
  /// The holder of that term acts now, and did not before.
  void note_actor(const std::string& pair, const PairTerm& term, const std::string& before);
  /// What controllers of the pair own here that have acted before becomes the holder's.
  void move_owned(const PairTerm& term);

  Parts parts_;
};

}  // namespace meshbus::host
