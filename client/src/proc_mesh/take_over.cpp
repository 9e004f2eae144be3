#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "client/src/base/time_left.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/check_owner.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "client/src/proc_mesh/owner_survey.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "client/src/proc_mesh/restart_orders.h"
#include "common/base/log.h"
#include "common/security/token.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

/// The owner is asked again after so long.
constexpr std::chrono::milliseconds kTakeAgain{250};
/// For one answer of an owner, which asks each host, for 3 s at most.
constexpr std::chrono::milliseconds kOwnerLimit{5000};
/// What of the time is kept to learn what an owner that does not answer has done.
constexpr std::chrono::milliseconds kLastLook{1000};

/// Whether it may have been done all the same, or may be done yet.
bool may_be_done(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::link_lost:
    case ErrorCode::host_unreachable:
    case ErrorCode::expired:
    case ErrorCode::queue_full: return true;
    default: return false;
  }
}

/// Takes a mesh of another owner over. Asking again changes nothing, so whatever answer was lost,
/// the hosts name the owner in the end.
class TakeOver {
 public:
  TakeOver(ContextCore& core, Connection& connection, std::string mesh, Clock::time_point end)
      : core_(core), connection_(connection), mesh_(std::move(mesh)), end_(end) {}

  /// Finds out where the mesh is, its owners, and its restart policy. Errors: not_exist; what a
  /// host of it says.
  Result<void> find(const std::vector<HostAddr>& asked) {
    const OwnerSurvey found(connection_, mesh_, asked, end_);
    std::optional<Error> problem;
    for (const auto& [host, answer] : found.answers()) {
      const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
      if (state == nullptr) {
        if (!answer && answer.error().code() != ErrorCode::not_exist) problem = answer.error();
        continue;
      }
      // A host that was away while the mesh was resized has an earlier layout.
      if (ref_ && state->revision() <= revision_) continue;
      auto report = to_report(*state);
      if (!report) return fail(report.error());
      auto ref = report->ref();
      if (!ref) return fail(ref.error());
      ref_.emplace(std::move(*ref));
      revision_ = state->revision();
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
    return look(end_);
  }

  /// Makes us the owner, by asking the ones that there are. Errors: what they say. After an unclear
  /// one it may be done, or may be done yet.
  Result<void> take(std::chrono::milliseconds lease) {
    for (;;) {
      const auto done = ask_owners(lease);
      if (done && survey_->problems().empty()) return {};
      // An answer may have been lost: the hosts know.
      const auto looked = look(end_);
      if (is_ours() || (done && looked)) return {};
      const auto error = done ? looked.error() : done.error();
      if (!may_be_done(error.code())) return fail(error);
      if (left_until(end_) <= kTakeAgain)
        return fail(error.within("it may be done all the same, or yet (" + survey_->words() +
                                 "): take it over again to know; until then this launcher renews "
                                 "its lease where it is the owner"));
      std::this_thread::sleep_for(kTakeAgain);
    }
  }

  /// What the owner before has used until the last moment. This launcher is the owner now, which
  /// renews the lease: a host that does not answer now is asked again by the upkeep, and until then
  /// counts with what it said before.
  void read_plan_again() {
    auto before = plan_;
    const auto read = look(end_);
    if (read) return;
    log::warn(read.error().to_string() + "; it is taken with what is known");
    if (before && plan_) merge_into(*before, *plan_);
    plan_ = std::move(before);
  }

  /// What the hosts said last.
  void feed(MeshMonitor& monitor) {
    core_.run([&] {
      for (const auto& [host, answer] : survey_->answers()) {
        const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
        if (state == nullptr) continue;
        monitor.on_update(host, state->ranks(), state->exit_reports(), state->launch());
        monitor.on_ownership(host, state->ownership());
        monitor.on_troubles(
            host,
            {.troubles = state->troubles(), .stuck = state->stuck(), .whole = state->ranks()});
      }
    });
  }

  const ProcMeshRef& ref() const { return *ref_; }
  /// MeshLayout::revision of it.
  std::uint32_t revision() const noexcept { return revision_; }
  /// Nothing: its ranks are not restarted.
  const RestartPlan* plan() const { return plan_ && !plan_->is_over ? &*plan_ : nullptr; }

 private:
  /// Asks all hosts of it. Errors: what one says.
  Result<void> look(Clock::time_point end) {
    survey_.emplace(connection_, mesh_, hosts_, end);
    plan_.reset();
    for (const auto& [host, answer] : survey_->answers()) {
      const auto* const state = answer ? answer->body_as<wire::MeshState>() : nullptr;
      const auto* const ownership = state == nullptr ? nullptr : state->ownership();
      if (ownership == nullptr || ownership->restarts() == nullptr) continue;
      auto plan = from_wire(*ownership->restarts(), ClockPair::now());
      if (plan_) {
        merge_into(*plan_, plan);
      } else {
        plan_ = std::move(plan);
      }
    }
    if (!survey_->problems().empty()) return fail(problem_of_survey());
    return {};
  }

  Error problem_of_survey() const {
    const auto& [host, error] = *survey_->problems().begin();
    return error.within("taking mesh " + mesh_ + ": host " + host.to_string());
  }

  /// Whether every host names us.
  bool is_ours() const {
    return survey_->problems().empty() && survey_->ownerless().empty() &&
           survey_->owners() == std::set<std::string>{connection_.self()};
  }

  /// Asks each owner that the hosts have named, and the hosts that name none. Once.
  Result<void> ask_owners(std::chrono::milliseconds lease) {
    wire::HandOverT order;
    order.mesh = mesh_;
    order.owner = connection_.self();
    order.lease_ms = static_cast<std::uint32_t>(lease.count());
    order.loss = wire::OwnerLoss::stop;
    const std::chrono::milliseconds left = left_until(end_);
    const auto limit = std::clamp<std::chrono::milliseconds>(
        left - std::min(kLastLook, left / 3), std::chrono::milliseconds(1), kOwnerLimit);
    std::vector<std::pair<std::string, Connection::Answer>> answers;
    for (const auto& host : survey_->ownerless())
      answers.emplace_back(
          "", connection_.ask(Destination::to_agent(host), wire::HandOverT(order), limit));
    for (const auto& name : survey_->owners()) {
      // What was done before is not asked again.
      if (name == order.owner) continue;
      const auto owner = ProcId::parse(name);
      if (!owner) return fail(owner.error().within("taking mesh " + mesh_));
      answers.emplace_back(": its owner " + name + " does not give it away",
                           connection_.ask(Destination::to(*owner), wire::HandOverT(order), limit));
    }
    Result<void> done;
    for (auto& [what, future] : answers) {
      const auto answer = future.get();
      if (!answer && done) done = fail(answer.error().within("taking mesh " + mesh_ + what));
    }
    return done;
  }

  ContextCore& core_;
  Connection& connection_;
  const std::string mesh_;
  const Clock::time_point end_;
  std::optional<ProcMeshRef> ref_;
  std::uint32_t revision_ = 0;
  std::vector<HostAddr> hosts_;
  std::optional<OwnerSurvey> survey_;
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
  if (core.run([&] { return connection.updates().is_ours(mesh); }))
    return fail(ErrorCode::refused,
                "taking mesh " + std::string(mesh) + ": this launcher answers for it already");

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
  monitor->begin_taking();
  // Before the hosts tell us everything, as the owner.
  core.run([&] { connection.updates().add(monitor, core.reactor()); });
  if (auto taken = taking.take(lease); !taken) {
    const auto problem = taken.error();
    if (!may_be_done(problem.code())) {
      core.run([&] { connection.updates().remove(*monitor); });
      monitor->abandon();
      return fail(problem);
    }
    // It may be ours all the same, or become so: nobody else would renew its lease then.
    monitor->mute();
    impl_->keep_unclear(monitor);
    return fail(problem);
  }
  monitor->end_taking();
  impl_->drop_unclear(monitor->name());
  taking.read_plan_again();
  if (taking.plan() != nullptr) monitor->restore_restarts(*taking.plan());
  taking.feed(*monitor);
  auto impl = std::make_unique<ProcMesh::Impl>(std::move(way), monitor);
  impl->resizing().taken_revision = taking.revision();
  if (monitor->has_restarts())
    impl->resizing().restarts = follow_restarts(core, connection, monitor, {});
  auto* const parts = impl.get();
  ProcMesh procs(std::move(impl));
  monitor->arm();
  parts->take_orders();
  return procs;
}

}  // namespace meshbus
