#include <algorithm>
#include <map>
#include <memory>

#include "client/src/base/time_left.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// Takes a mesh of another owner over.
class TakeOver {
 public:
  TakeOver(ContextCore& core, Connection& connection, std::string mesh, Clock::time_point end)
      : core_(core), connection_(connection), mesh_(std::move(mesh)), end_(end) {}

  /// Finds out where the mesh is, its owner, and its restart policy. Errors:
  /// not_exist; what a host of it says.
  Result<void> find(const std::vector<HostAddr>& asked) {
    auto states = ask(asked);
    std::optional<Error> problem;
    for (const auto& [host, answer] : states) {
      const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
      if (state == nullptr) {
        if (!answer && answer.error().code() != ErrorCode::not_exist) problem = answer.error();
        continue;
      }
      auto report = to_report(*state);
      if (!report) return fail(report.error());
      auto ref = report->ref();
      if (!ref) return fail(ref.error());
      ref_.emplace(std::move(*ref));
      owner_ = text_of(state->owner());
      const auto* const ownership = state->ownership();
      is_detached_ = ownership != nullptr && ownership->gone();
      break;
    }
    if (!ref_)
      return fail(problem.value_or(Error(ErrorCode::not_exist, "no host of these knows it"))
                      .within("taking mesh " + mesh_));
    for (std::uint64_t index = 0; index < ref_->hosts().size(); ++index) {
      const auto& host = ref_->hosts()[index];
      const bool has_ranks = ref_->block_of(index).value_or(RankBlock{}).size() != 0;
      if (has_ranks && std::find(hosts_.begin(), hosts_.end(), host) == hosts_.end())
        hosts_.push_back(host);
    }
    return read_plan();
  }

  /// The policy, with what was used of it. Errors: what a host says.
  Result<void> read_plan() {
    plan_.reset();
    states_ = ask(hosts_);
    std::optional<Error> problem;
    for (const auto& [host, answer] : states_) {
      if (!answer) {
        problem = answer.error().within("taking mesh " + mesh_ + ": host " + host.to_string());
        continue;
      }
      const auto* const state = answer->body_as<wire::MeshState>();
      const auto* const ownership = state == nullptr ? nullptr : state->ownership();
      if (ownership == nullptr || ownership->restarts() == nullptr) continue;
      auto plan = from_wire(*ownership->restarts(), ClockPair::now());
      if (plan_) {
        merge_into(*plan_, plan);
      } else {
        plan_ = std::move(plan);
      }
    }
    if (problem) return fail(*problem);
    return {};
  }

  /// What the owner before has used until the last moment. This launcher is the owner now, which
  /// renews the lease: a host that does not answer now is asked again by the upkeep, and until then
  /// counts with what it said before.
  void read_plan_again() {
    auto before = plan_;
    const auto read = read_plan();
    if (read) return;
    log::warn(read.error().to_string() + "; it is taken with what is known");
    if (before && plan_) merge_into(*before, *plan_);
    plan_ = std::move(before);
  }

  /// The owner, or with none each host, makes us the owner. Errors: what they say.
  Result<void> take(std::chrono::milliseconds lease) {
    wire::HandOverT order;
    order.mesh = mesh_;
    order.owner = connection_.self();
    order.lease_ms = static_cast<std::uint32_t>(lease.count());
    order.loss = wire::OwnerLoss::stop;
    if (is_detached_) {
      std::vector<Connection::Answer> answers;
      for (const auto& host : hosts_)
        answers.push_back(
            connection_.ask(Destination::to_agent(host), wire::HandOverT(order), left_until(end_)));
      for (auto& answer : answers) {
        if (const auto done = answer.get(); !done)
          return fail(done.error().within("taking mesh " + mesh_));
      }
      return {};
    }
    const auto owner = ProcId::parse(owner_);
    if (!owner) return fail(owner.error().within("taking mesh " + mesh_));
    const auto done =
        connection_.ask(Destination::to(*owner), std::move(order), left_until(end_)).get();
    if (!done)
      return fail(done.error().within("taking mesh " + mesh_ + ": its owner " + owner_ +
                                      " does not give it away"));
    return {};
  }

  /// What the hosts said last.
  void feed(MeshMonitor& monitor) {
    core_.run([&] {
      for (const auto& [host, answer] : states_) {
        const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
        if (state == nullptr) continue;
        monitor.on_update(host, state->ranks(), state->exit_reports(), state->launch());
        monitor.on_troubles(
            host,
            {.troubles = state->troubles(), .stuck = state->stuck(), .whole = state->ranks()});
      }
    });
  }

  const ProcMeshRef& ref() const { return *ref_; }
  /// Nothing: its ranks are not restarted.
  const RestartPlan* plan() const { return plan_ && !plan_->is_over ? &*plan_ : nullptr; }

 private:
  using Answers = std::vector<std::pair<HostAddr, Result<ControlMessage>>>;
  Answers ask(const std::vector<HostAddr>& hosts) {
    std::vector<Connection::Answer> futures;
    for (const auto& host : hosts) {
      wire::GetStateT get;
      get.mesh = mesh_;
      futures.push_back(
          connection_.ask(Destination::to_agent(host), std::move(get), left_until(end_)));
    }
    Answers answers;
    for (std::size_t i = 0; i < hosts.size(); ++i) answers.emplace_back(hosts[i], futures[i].get());
    return answers;
  }

  ContextCore& core_;
  Connection& connection_;
  const std::string mesh_;
  const Clock::time_point end_;
  std::optional<ProcMeshRef> ref_;
  std::string owner_;
  bool is_detached_ = false;
  std::vector<HostAddr> hosts_;
  Answers states_;
  std::optional<RestartPlan> plan_;
};

}  // namespace

Result<ProcMesh> HostMesh::take_over(std::string_view mesh, Handlers handlers,
                                     TakeOverOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fail(fine.error());
  auto& core = *impl_->core();
  if (auto fine = core.check_may_wait(); !fine) return fail(fine.error());
  auto way = impl_->use();
  auto& connection = *way.get();
  TakeOver taking(
      core, connection, std::string(mesh),
      Clock::now() + std::min<std::chrono::milliseconds>(options.deadline, std::chrono::hours(24)));
  if (auto found = taking.find(impl_->distinct_hosts()); !found) return fail(found.error());

  MeshMonitor::Options monitored;
  auto late_monitor = std::make_shared<std::weak_ptr<MeshMonitor>>();
  if (!handlers.on_failure) {
    handlers.on_failure = [core = impl_->core().get(), connection = way.get(),
                           late_monitor](const RankReport& failure) {
      handle_failure_by_default(*core, *connection, *late_monitor, failure);
    };
  }
  monitored.handlers = std::move(handlers);
  monitored.lease = options.lease.value_or(core.config().duration(keys::lease));
  monitored.grace = core.config().duration(keys::terminate_grace);
  if (taking.plan() != nullptr) monitored.restart = taking.plan()->policy;
  monitored.seed = random_u64();
  const auto lease = monitored.lease;
  const auto monitor = std::make_shared<MeshMonitor>(core.reactor(), core.handlers(), taking.ref(),
                                                     std::move(monitored));
  *late_monitor = monitor;
  for (std::uint64_t index = 0; index < taking.ref().hosts().size(); ++index)
    monitor->progress().note_accepted(index);
  // Before the hosts tell us everything, as the owner.
  core.run([&] { connection.updates().add(monitor, core.reactor()); });
  if (auto taken = taking.take(lease); !taken) {
    core.run([&] { connection.updates().remove(*monitor); });
    monitor->abandon();
    return fail(taken.error());
  }
  taking.read_plan_again();
  if (taking.plan() != nullptr) monitor->restore_restarts(*taking.plan());
  taking.feed(*monitor);
  if (monitor->has_restarts()) follow_restarts(core, connection, monitor, {});
  ProcMesh procs(std::make_unique<ProcMesh::Impl>(std::move(way), monitor));
  monitor->arm();
  return procs;
}

}  // namespace meshbus
