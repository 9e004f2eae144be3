#pragma once

#include <memory>

#include "agent/host/output/log_streams.h"
#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/request_checks.h"
#include "agent/host/updates/publisher.h"

namespace meshbus::host {

/// Answers readers of what procs write, and owners that have taken it (schemas/logs.fbs). Lives on
/// the reactor's thread.
class LogService {
 public:
  /// All of these outlive it.
  LogService(Bus& bus, MeshProcs& procs, RequestChecks& checks, OwnershipService& ownership,
             Publisher& publisher, LogStreams& logs)
      : bus_(bus),
        procs_(procs),
        checks_(checks),
        ownership_(ownership),
        publisher_(publisher),
        logs_(logs) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<LogService>& service);

 private:
  void on_output_taken(const Request& request, const wire::OutputTaken& message);
  void on_stream_logs(const Request& request, const wire::StreamLogs& message);
  void on_log_taken(const Request& request, const wire::LogTaken& message);
  void on_stop_logs(const Request& request, const wire::StopLogs& message);

  Bus& bus_;
  MeshProcs& procs_;
  RequestChecks& checks_;
  OwnershipService& ownership_;
  Publisher& publisher_;
  LogStreams& logs_;
};

}  // namespace meshbus::host
