#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "client/src/base/time_left.h"
#include "client/src/context/check_owner.h"
#include "client/src/proc_mesh/proc_mesh_impl.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;
/// A host that did not answer is asked again after so long.
constexpr std::chrono::milliseconds kHandOverAgain{250};
/// For one answer: agents and controllers answer at once.
constexpr std::chrono::milliseconds kHandOverLimit{3000};

std::chrono::milliseconds limit_until(Clock::time_point end) {
  return std::clamp<std::chrono::milliseconds>(left_until(end), std::chrono::milliseconds(1),
                                               kHandOverLimit);
}

/// Whether asking again may help.
bool may_pass(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::fate_unknown:
    case ErrorCode::host_unreachable:
    case ErrorCode::link_lost:
    case ErrorCode::queue_full:
    case ErrorCode::no_such_proc: return true;  // an agent that is being replaced
    default: return false;
  }
}

/// The hosts that have not confirmed it, and why.
using Problems = std::map<HostAddr, Error>;

/// Asks all of them once; or those that did not answer again, until the end.
template <typename Message>
Problems ask_all(Connection& connection, std::vector<HostAddr> hosts, const Message& message,
                 Clock::time_point end, bool once = false) {
  Problems problems;
  for (;;) {
    std::vector<std::pair<HostAddr, Connection::Answer>> answers;
    for (const auto& host : hosts)
      answers.emplace_back(
          host, connection.ask(Destination::to_agent(host), Message(message), limit_until(end)));
    hosts.clear();
    for (auto& [host, future] : answers) {
      const auto answer = future.get();
      problems.erase(host);
      if (answer) continue;
      problems.emplace(host, answer.error());
      if (may_pass(answer.error().code())) hosts.push_back(host);
    }
    if (hosts.empty() || once || left_until(end) <= kHandOverAgain) return problems;
    std::this_thread::sleep_for(kHandOverAgain);
  }
}

/// The hosts keep the restart policy for the owner that follows.
Problems leave_plan(Connection& connection, const std::vector<HostAddr>& hosts,
                    const std::string& mesh, const RestartPlan& plan, Clock::time_point end) {
  wire::RestartProcsT leave;
  leave.mesh = mesh;
  leave.plan = std::make_unique<wire::RestartPlanT>(to_wire(plan, ClockPair::now()));
  return ask_all(connection, hosts, leave, end);
}

tl::unexpected<Error> not_left(const std::string& what, const Problems& problems) {
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
                       const std::function<bool(const HostAddr&)>& is_over,
                       const RestartPlan* plan) {
  if (auto fine = core.check_may_wait(); !fine) return fine;
  const auto end =
      Clock::now() + std::min<std::chrono::milliseconds>(options.deadline, std::chrono::hours(24));
  const std::string what = "handing mesh " + mesh + " over to " + controller.to_string();
  wire::OfferMeshT offer;
  offer.mesh = mesh;
  for (const auto& host : hosts) offer.hosts.push_back(host.to_string());
  const auto answer =
      connection.ask(Destination::to(controller), std::move(offer), limit_until(end)).get();
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
  ask_all(connection, hosts, stream, Clock::now() + (end - Clock::now()) / 3, /*once=*/true);
  wire::HandOverT order;
  order.mesh = mesh;
  order.owner = accepted->owner()->str();
  order.lease_ms = accepted->lease_ms();
  if (options.lease)
    order.lease_ms =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(options.lease->count(), 0, UINT32_MAX));
  order.loss = options.detach ? wire::OwnerLoss::detach : wire::OwnerLoss::lapse;
  // The new owner renews nothing before all hosts have confirmed.
  core.run(
      [&] { connection.upkeep().begin_handover(mesh, std::chrono::milliseconds(order.lease_ms)); });
  auto problems = ask_all(connection, hosts, order, end);
  std::erase_if(problems, [&](const auto& entry) {
    return entry.second.code() == ErrorCode::not_exist && is_over(entry.first);
  });
  if (problems.empty()) return {};
  std::string detail = what + ": " + std::to_string(hosts.size() - problems.size()) + " of " +
                       std::to_string(hosts.size()) +
                       " hosts have confirmed it, and it is not done before all have: do it again";
  for (const auto& [host, error] : problems)
    detail += "; not " + host.to_string() + ": " + error.to_string();
  return fail(problems.begin()->second.code(), std::move(detail));
}

Result<void> ProcMesh::handover(const ProcId& controller, HandoverOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  auto& monitor = impl_->monitor();
  if (monitor.progress().is_handed_over() && monitor.has_restarts()) return {};
  if (impl_->held_hosts() != nullptr)
    return fail(
        ErrorCode::refused,
        "mesh " + monitor.name() + " holds its hosts, which end with it: it cannot be handed over");
  std::set<HostAddr> hosts;
  for (std::uint64_t index = 0; index < ref().hosts().size(); ++index) {
    if (ref().block_of(index).value_or(RankBlock{}).size() != 0) hosts.insert(ref().hosts()[index]);
  }
  const auto is_over = [&monitor](const HostAddr& host) {
    return !monitor.progress().is_alive_on(host);
  };
  std::optional<RestartPlan> plan;
  if (monitor.has_restarts()) {
    if (auto fine = impl_->core().check_may_wait(); !fine) return fine;
    auto paused = monitor.pause_restarts(options.deadline / 2);
    if (!paused) return fail(paused.error());
    plan = std::move(*paused);
  }
  auto done =
      hand_over(impl_->core(), impl_->connection(), monitor.name(), {hosts.begin(), hosts.end()},
                controller, options, is_over, plan ? &*plan : nullptr);
  if (done) {
    monitor.hand_over();
  } else if (plan) {
    monitor.resume_restarts();
  }
  return done;
}

bool ProcMesh::is_handed_over() const {
  return impl_ != nullptr && impl_->monitor().progress().is_handed_over();
}

}  // namespace meshbus
