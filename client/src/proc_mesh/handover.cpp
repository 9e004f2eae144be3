#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "client/src/base/time_left.h"
#include "client/src/context/ask_all.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/handover_order.h"
#include "client/src/proc_mesh/owner_survey.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
/// The hosts keep the restart policy for the owner that follows: each the part that concerns it.
HostProblems leave_plan(Connection& connection, const std::vector<HostAddr>& hosts,
                        const std::string& mesh, const LeftPlan& left, Clock::time_point end) {
  const auto leave_for = [&](const HostAddr& host) {
    wire::RestartProcsT leave;
    leave.mesh = mesh;
    const auto part =
        part_of(left.plan, [&](std::uint64_t rank) { return left.is_on(rank, host); });
    leave.plan = std::make_unique<wire::RestartPlanT>(to_wire(part, ClockPair::now()));
    return leave;
  };
  auto problems = ask_all(connection, hosts, leave_for, end);
  // A handover that was half done: the host names the new owner already, and got the plan before.
  // If it names another one, it refuses the handover.
  std::erase_if(problems,
                [](const auto& entry) { return entry.second.code() == ErrorCode::unauthorised; });
  return problems;
}

tl::unexpected<Error> not_left(const std::string& what, const HostProblems& problems) {
  const auto& [host, error] = *problems.begin();
  if (error.code() == ErrorCode::no_such_port)
    return fail(ErrorCode::refused, what + ": host " + host.to_string() +
                                        " is of a release that keeps no restart policies, and the "
                                        "mesh has one");
  return fail(error.within(what + ": host " + host.to_string() +
                           " does not keep the restart policy of the mesh"));
}

}  // namespace

Result<void> hand_over(ContextCore& core, Connection& connection, const std::string& mesh,
                       const std::vector<HostAddr>& hosts, const ProcId& controller,
                       const HandoverOptions& options,
                       const std::function<bool(const HostAddr&)>& is_over, const LeftPlan* plan) {
  if (auto fine = core.check_may_wait(); !fine) return fine;
  const auto end =
      Clock::now() + std::min<std::chrono::milliseconds>(options.deadline, std::chrono::hours(24));
  const std::string what = "handing mesh " + mesh + " over to " + controller.to_string();
  wire::OfferMeshT offer;
  offer.mesh = mesh;
  for (const auto& host : hosts) offer.hosts.push_back(host.to_string());
  const auto answer =
      connection.ask(Destination::to(controller), std::move(offer), ask_limit(end)).get();
  if (!answer) return fail(answer.error().within(what));
  const auto* const accepted = answer->body_as<wire::OfferAccepted>();
  if (accepted == nullptr)
    return fail(ErrorCode::malformed_message, what + ": it answered " + answer->body_name());

  if (plan != nullptr) {
    if (!accepted->can_restart())
      return fail(ErrorCode::refused,
                  what +
                      ": that controller is of a release that restarts no ranks, and the mesh "
                      "has a restart policy; start a newer meshbus-controller");
    auto left = leave_plan(connection, hosts, mesh, *plan, end);
    std::erase_if(left, [&](const auto& entry) {
      return entry.second.code() == ErrorCode::not_exist && is_over(entry.first);
    });
    if (!left.empty()) return not_left(what, left);
  }
  // The former owner is told everything as a subscriber from now on: no change falls
  // between the two.
  wire::StreamStateT stream;
  stream.mesh = mesh;
  stream.subscriber = connection.self();
  // A host that is stuck is not to take the time of the others.
  ask_all(
      connection, hosts, [&](const HostAddr&) { return stream; },
      Clock::now() + (end - Clock::now()) / 3, /*once=*/true);
  const auto order = handover_order(mesh, *accepted, options);
  // The new owner renews nothing before all hosts have confirmed.
  core.run(
      [&] { connection.upkeep().begin_handover(mesh, std::chrono::milliseconds(order.lease_ms)); });
  auto problems = ask_all(connection, hosts, [&](const HostAddr&) { return order; }, end);
  std::erase_if(problems, [&](const auto& entry) {
    return entry.second.code() == ErrorCode::not_exist && is_over(entry.first);
  });
  if (problems.empty()) return {};
  return not_confirmed(what, hosts.size(), problems);
}

namespace {

/// What there is to say when the mesh is handed over already. Success: to that controller, which
/// answers for it.
Result<void> check_handed_over(ProcMesh::Impl& mesh, const std::vector<HostAddr>& hosts,
                               const ProcId& controller, std::chrono::milliseconds deadline) {
  if (auto fine = mesh.core().check_may_wait(); !fine) return fine;
  const auto& monitor = mesh.monitor();
  const OwnerSurvey found(mesh.connection(), monitor.name(), hosts, Clock::now() + deadline);
  const std::string what = "mesh " + monitor.name() + " was handed over already";
  for (const auto& [host, error] : found.problems()) {
    const bool is_over =
        error.code() == ErrorCode::not_exist && !monitor.progress().is_alive_on(host);
    if (!is_over)
      return fail(error.within(what + "; host " + host.to_string() +
                               " does not say who answers for it now"));
  }
  const auto& owners = found.owners();
  const bool is_as_asked = found.ownerless().empty() &&
                           std::all_of(owners.begin(), owners.end(), [&](const std::string& owner) {
                             return owner == controller.to_string();
                           });
  if (is_as_asked) return {};
  return fail(ErrorCode::refused,
              what + ": " + found.words() +
                  "; what is to become of it is for its owner, or for `meshbus controller "
                  "handover`, to say");
}

}  // namespace

Result<void> ProcMesh::handover(const ProcId& controller, HandoverOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  auto& monitor = impl_->monitor();
  if (impl_->held_hosts() != nullptr)
    return fail(
        ErrorCode::refused,
        "mesh " + monitor.name() + " holds its hosts, which end with it: it cannot be handed over");
  if (impl_->mpi() != nullptr)
    return fail(ErrorCode::refused, "mesh " + monitor.name() +
                                        " is an MPI job, whose helpers end with this launcher: it "
                                        "cannot be handed over");
  std::set<HostAddr> hosts;
  for (std::uint64_t index = 0; index < ref().hosts().size(); ++index) {
    if (ref().block_of(index).value_or(RankBlock{}).size() != 0) hosts.insert(ref().hosts()[index]);
  }
  if (monitor.progress().is_handed_over())
    return check_handed_over(*impl_, {hosts.begin(), hosts.end()}, controller, options.deadline);
  const auto is_over = [&monitor](const HostAddr& host) {
    return !monitor.progress().is_alive_on(host);
  };
  std::optional<LeftPlan> plan;
  if (monitor.has_restarts()) {
    if (auto fine = impl_->core().check_may_wait(); !fine) return fine;
    auto paused = monitor.pause_restarts(options.deadline / 2);
    if (!paused) return fail(paused.error());
    plan.emplace(LeftPlan{.plan = std::move(*paused),
                          .is_on = [mesh = ref()](std::uint64_t rank, const HostAddr& host) {
                            const auto index = mesh.host_index_of(rank);
                            return index && mesh.hosts()[*index] == host;
                          }});
  }
  monitor.begin_handover(controller);
  auto done =
      hand_over(impl_->core(), impl_->connection(), monitor.name(), {hosts.begin(), hosts.end()},
                controller, options, is_over, plan ? &*plan : nullptr);
  // The hosts may have said it before their answers came.
  if (done || monitor.progress().is_handed_over()) {
    monitor.hand_over();
    return {};
  }
  if (plan) monitor.resume_restarts();
  return done;
}

bool ProcMesh::is_handed_over() const {
  return impl_ != nullptr && impl_->monitor().progress().is_handed_over();
}

}  // namespace meshbus
