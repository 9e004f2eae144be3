#pragma once

#include <memory>

#include "agent/host/hands/execs.h"
#include "agent/host/services/ownership_service.h"
#include "agent/host/services/request_checks.h"

namespace meshbus::host {

/// Answers those that work beside ranks (schemas/hands.fbs). Lives on the reactor's thread.
class HandsService {
 public:
  /// All of these outlive it.
  HandsService(Bus& bus, RequestChecks& checks, OwnershipService& ownership, Execs& execs)
      : bus_(bus), checks_(checks), ownership_(ownership), execs_(execs) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<HandsService>& service);

 private:
  void on_start_exec(const Request& request, const wire::StartExec& message);
  void on_exec_input(const Request& request, const wire::ExecInput& message);
  void on_exec_control(const Request& request, const wire::ExecControl& message);
  void on_exec_taken(const Request& request, const wire::ExecTaken& message);
  /// The exec of a request. Null: it is refused.
  Exec* find(const Request& request, std::uint64_t number);

  Bus& bus_;
  RequestChecks& checks_;
  OwnershipService& ownership_;
  Execs& execs_;
};

}  // namespace meshbus::host
