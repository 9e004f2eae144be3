#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/host/procs/mesh_procs.h"
#include "agent/host/services/helper_run.h"
#include "agent/host/services/request_checks.h"

namespace meshbus::host {

/// Answers where the threads of ranks are (schemas/stacks.fbs). meshbus-stacks looks, one process
/// for each request: what it reads may make it hang or crash, and this agent goes on. Lives on the
/// reactor's thread.
class StacksService {
 public:
  /// All of these outlive it.
  StacksService(Reactor& reactor, Bus& bus, MeshProcs& procs, RequestChecks& checks)
      : reactor_(reactor), bus_(bus), procs_(procs), checks_(checks) {}

  static void add_rows(Dispatcher& handlers, const std::unique_ptr<StacksService>& service);

 private:
  /// A request that is being answered.
  struct Look {
    Request request;
    std::string mesh;
    /// Incarnation by rank: one that has ended meanwhile is not what was looked at.
    std::map<std::uint64_t, std::uint64_t> incarnations;
    std::vector<std::string> targets;
    std::string trouble;  ///< Why the first try failed. Empty: this is the first one.
    std::unique_ptr<HelperRun> run;
  };
  using Looks = std::list<Look>;

  void on_get_stacks(const Request& request, const wire::GetStacks& message);
  void start(Looks::iterator look, bool is_kernel_only);
  void on_done(Looks::iterator look, Result<std::string> output);
  void answer(Looks::iterator look, wire::StacksT stacks);

  Reactor& reactor_;
  Bus& bus_;
  MeshProcs& procs_;
  RequestChecks& checks_;
  Looks looks_;
};

}  // namespace meshbus::host
