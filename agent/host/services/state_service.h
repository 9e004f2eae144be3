#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/host_facts.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/updates/change_book.h"
#include "agent/host/updates/publisher.h"
#include "agent/host/updates/rank_waits.h"

namespace meshbus::host {

/// Answers questions about meshes and ranks, once or at each change (schemas/supervision.fbs).
/// Lives on the reactor's thread.
class StateService {
 public:
  /// What it works with; all of it outlives it.
  struct Parts {
    Bus& bus;
    MeshProcs& procs;
    RequestChecks& checks;
    OwnershipService& ownership;
    Publisher& publisher;
    RankWaits& waits;
    const HostFacts& facts;
  };
  explicit StateService(const Parts& parts) : parts_(parts) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<StateService>& service);

 private:
  void on_get_state(const Request& request, const wire::GetState& message);
  void on_list_meshes(const Request& request, const wire::ListMeshes& message);
  void answer_changes(const Request& request, const wire::ListMeshes& message);
  void on_stream_state(const Request& request, const wire::StreamState& message);
  void on_stop_stream(const Request& request, const wire::StopStream& message);
  void on_get_rank_status(const Request& request, const wire::GetRankStatus& message);
  void on_wait_rank_status(const Request& request, const wire::WaitRankStatus& message);
  /// The ranks of a request; none: all that this host has. Otherwise the request is refused.
  std::optional<std::vector<RankBlock>> find_ranks(
      const Request& request, const flatbuffers::String* mesh,
      const flatbuffers::Vector<const wire::RankInterval*>* ranks, std::string_view field);

  Parts parts_;
  ChangeBook changes_;
};

}  // namespace meshbus::host
