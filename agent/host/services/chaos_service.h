#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/disk_fill.h"
#include "agent/host/services/request_checks.h"
#include "wire/supervision_generated.h"

namespace meshbus::host {

/// Disturbs ranks, roles and the disk of this host on purpose (schemas/chaos.fbs), where the
/// settings allow it. The keeper holds the ranks and the warden the roles, so that each disturbance
/// ends in time without this agent. Lives on the reactor's thread.
class ChaosService {
 public:
  struct Options {
    bool is_allowed = false;
    std::chrono::milliseconds longest{0};
    std::uint64_t most = 0;
    std::string disk;  ///< The directory whose filesystem is filled; may be empty.
    /// Asks the warden for what is done to a role: "freeze broker 5000". It answers each, in order,
    /// through on_warden_answer(). Empty: there is no warden.
    std::function<void(const std::string&)> ask_warden = {};
  };

  ChaosService(Bus& bus, MeshProcs& procs, RequestChecks& checks, Options options);

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<ChaosService>& service);
  /// "ok", or why it does not do it.
  void on_warden_answer(std::string_view answer);

 private:
  void on_start_chaos(const Request& request, const wire::StartChaos& message);
  /// Errors: refused, out_of_range.
  Result<void> check(const wire::StartChaos& message) const;
  void disturb_ranks(const Request& request, const wire::StartChaos& message);
  void disturb_role(const Request& request, const wire::StartChaos& message);
  void fill_disk(const Request& request, const wire::StartChaos& message);
  /// The ranks of a request, each of which must live. Empty: it is refused.
  std::vector<Proc*> find_ranks(const Request& request, const wire::StartChaos& message);
  /// What the event log says of it, when it is done.
  static wire::EventT event_of(const wire::StartChaos& message, const std::string& what);
  void note(wire::EventT event);
  void confirm(const Request& request, const std::string& detail, std::int64_t time_ns);

  Bus& bus_;
  MeshProcs& procs_;
  RequestChecks& checks_;
  Options options_;
  DiskFill disk_;
  struct Asked {
    Request request;
    std::string detail;
    wire::EventT event;
  };
  std::deque<Asked> asked_;  // of the warden
};

}  // namespace meshbus::host
