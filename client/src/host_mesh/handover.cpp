// Hosts that are handed over to a controller, and taken back.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/src/base/time_left.h"
#include "client/src/context/ask_all.h"
#include "client/src/context/check_owner.h"
#include "client/src/context/handover_order.h"
#include "client/src/host_mesh/host_mesh_impl.h"
#include "common/address/host_resource.h"
#include "wire/lifecycle_generated.h"

namespace meshbus {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point end_of(std::chrono::milliseconds deadline) {
  return Clock::now() + std::min<std::chrono::milliseconds>(deadline, std::chrono::hours(24));
}

/// An agent of a release that does not know it looks for a mesh of that name.
Error in_words(const Error& error) {
  if (error.code() != ErrorCode::not_exist) return error;
  return {ErrorCode::refused, "it is of a release that has no owner"};
}

/// What a host is that does not name its owner.
enum class Silent {
  count_as_free,  ///< They are asked themselves then.
  fail,           ///< Nothing is asked of any owner then.
};

/// Asks the owners of these hosts to hand them over by `order`. Returns the hosts that have none.
/// Errors: what an owner says, or a silent host.
Result<std::vector<HostAddr>> ask_owners(Connection& connection, const std::vector<HostAddr>& hosts,
                                         const wire::HandOverT& order, Silent silent,
                                         Clock::time_point end) {
  std::vector<HostAddr> free;
  std::map<std::string, std::vector<std::string>> by_owner;
  for (const auto& report : ask_hosts(connection, hosts, ask_limit(end))) {
    // Before any owner was asked.
    if (report.code != ErrorCode::none && silent == Silent::fail)
      return fail(report.code, "host " + report.host.to_string() +
                                   " does not name its owner: " + report.problem);
    const bool has_other =
        report.code == ErrorCode::none && !report.owner.empty() && report.owner != order.owner;
    if (has_other) {
      by_owner[report.owner].push_back(report.host.to_string());
    } else {
      free.push_back(report.host);
    }
  }
  for (auto& [name, owned] : by_owner) {
    const auto owner = ProcId::parse(name);
    if (!owner) return fail(owner.error().within("the owner of these hosts"));
    auto ask = order;
    ask.hosts = std::move(owned);
    const auto answer =
        connection.ask(Destination::to(*owner), std::move(ask), left_until(end)).get();
    const auto code = answer ? ErrorCode::none : answer.error().code();
    if (code == ErrorCode::timeout || code == ErrorCode::fate_unknown)
      return fail(answer.error().within("their owner " + name +
                                        " may have given them away all the same; repeat this"));
    if (!answer)
      return fail(answer.error().within("their owner " + name + " does not give them away"));
  }
  return free;
}

}  // namespace

Result<void> hand_hosts_over(Connection& connection, const std::vector<HostAddr>& hosts,
                             const ProcId& controller, const HandoverOptions& options) {
  const auto end = end_of(options.deadline);
  wire::OfferMeshT offer;
  offer.mesh = kHostResource;
  for (const auto& host : hosts) offer.hosts.push_back(host.to_string());
  const auto answer =
      connection.ask(Destination::to(controller), std::move(offer), ask_limit(end)).get();
  if (!answer) return fail(answer.error());
  const auto* const accepted = answer->body_as<wire::OfferAccepted>();
  if (accepted == nullptr)
    return fail(ErrorCode::malformed_message, "it answered " + answer->body_name());
  if (!accepted->can_own_hosts())
    return fail(ErrorCode::refused,
                "that controller is of a release that owns no hosts; start a newer "
                "meshbus-controller");
  const auto order = handover_order(kHostResource, *accepted, options);
  const auto free = ask_owners(connection, hosts, order, Silent::count_as_free, end);
  if (!free) return fail(free.error());
  auto problems = ask_all(connection, *free, [&](const HostAddr&) { return order; }, end);
  if (problems.empty()) return {};
  for (auto& [host, error] : problems) error = in_words(error);
  return not_confirmed("the handover", hosts.size(), problems);
}

Result<void> HostMesh::Impl::check_may_hand_over() const {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::refused, "hosts " + ref_.name().to_string() + ": " + why);
  };
  if (shutdown_ && *shutdown_) return refuse("they were shut down");
  if (allocation_ != nullptr && !allocation_->can_release())
    return refuse(allocation_->release().error().detail());
  if (allocation_ == nullptr && ownership_ == Ownership::attached)
    return refuse(
        "this launcher is only attached to them, and nothing of it is to hand over: take() them");
  return {};
}

Result<void> HostMesh::Impl::check_handed_over(const ProcId& controller,
                                               std::chrono::milliseconds deadline) {
  const std::string what = "hosts " + ref_.name().to_string() + " were handed over already";
  for (const auto& report : ask_hosts(connection(), distinct_hosts_, deadline)) {
    if (report.code != ErrorCode::none)
      return fail(report.code, what + "; " + describe(report.host) +
                                   " does not say who answers for it now: " + report.problem);
    if (report.owner == controller.to_string()) continue;
    return fail(ErrorCode::refused, what + ": " + (report.owner.empty() ? "nobody" : report.owner) +
                                        " answers for " + describe(report.host) + " now");
  }
  return {};
}

Result<void> HostMesh::Impl::handover(const ProcId& controller, const HandoverOptions& options) {
  if (auto fine = core()->check_may_wait(); !fine) return fine;
  const std::lock_guard lock(shutdown_mutex_);
  if (is_handed_over_) return check_handed_over(controller, options.deadline);
  if (auto fine = check_may_hand_over(); !fine) return fine;
  const std::string what =
      "handing hosts " + ref_.name().to_string() + " over to " + controller.to_string();
  auto done = hand_hosts_over(connection(), distinct_hosts_, controller, options);
  if (!done) return fail(done.error().within(what));
  // Their owner counts from now on, not our lifeline.
  if (allocation_ != nullptr) {
    done = allocation_->release();
    if (!done) return fail(done.error().within(what));
  }
  is_handed_over_ = true;
  return {};
}

Result<void> HostMesh::Impl::take_back(std::chrono::milliseconds deadline) {
  // By name only, and without a lease: they do not end with this launcher, however it ends.
  wire::HandOverT order;
  order.mesh = kHostResource;
  order.owner = connection().self();
  const auto free =
      ask_owners(connection(), distinct_hosts_, order, Silent::fail, end_of(deadline));
  if (!free) return fail(free.error());
  return {};
}

Result<void> HostMesh::handover(const ProcId& controller, HandoverOptions options) {
  if (auto fine = check_owner(impl_); !fine) return fine;
  return impl_->handover(controller, options);
}

bool HostMesh::is_handed_over() const {
  return impl_ != nullptr && impl_->is_handed_over();
}

}  // namespace meshbus
