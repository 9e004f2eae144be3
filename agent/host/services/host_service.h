#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/host/ownership/host_owner.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/host_facts.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/services/update_fanout.h"

namespace meshbus::host {

/// Answers requests about the host as a whole: shutdown, drains, its state and its event log. Lives
/// on the reactor's thread.
class HostService {
 public:
  struct Options {
    std::size_t in_flight =
        1;  ///< How many procs are ended at a time, when a request does not say.
    /// Between SIGTERM and SIGKILL, when the owner is gone.
    std::chrono::milliseconds grace{0};
    /// A ShutdownHost is done and answered. `ok`: every proc has ended.
    std::function<void(bool ok)> on_shutdown;
  };
  /// All but the options outlive it.
  HostService(Bus& bus, MeshProcs& procs, RequestChecks& checks, UpdateFanout& updates,
              const HostFacts& facts, const HostOwner& owner, Options options)
      : bus_(bus),
        procs_(procs),
        checks_(checks),
        updates_(updates),
        facts_(facts),
        owner_(owner),
        options_(std::move(options)) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<HostService>& service);
  /// The owner of this host is gone: stops every proc, then ends the host.
  void end(const std::string& why);
  /// The broker of this host that has that incarnation has let the agent in.
  void on_broker(std::uint64_t incarnation);

 private:
  void on_shutdown_host(const Request& request, const wire::ShutdownHost& message);
  void on_drain_host(const Request& request, const wire::DrainHost& message);
  void on_resume_host(const Request& request, const wire::ResumeHost& message);
  void on_get_host(const Request& request, const wire::GetHost& message);
  void on_get_events(const Request& request, const wire::GetEvents& message);
  /// The scope of a drain; otherwise the request is refused.
  std::optional<DrainScope> find_scope(const Request& request, const flatbuffers::String* owner,
                                       const flatbuffers::String* mesh);
  /// How many procs are ended at a time; otherwise the request is refused.
  std::optional<std::size_t> find_in_flight(const Request& request, std::uint16_t in_flight);

  Bus& bus_;
  MeshProcs& procs_;
  RequestChecks& checks_;
  UpdateFanout& updates_;
  const HostFacts& facts_;
  const HostOwner& owner_;
  Options options_;
  std::uint64_t broker_incarnation_ = 0;
  std::uint32_t broker_restarts_ = 0;
  /// In nanoseconds since 1970 UTC.
  std::int64_t broker_restarted_ns_ = 0;
};

}  // namespace meshbus::host
