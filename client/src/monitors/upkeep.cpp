#include "client/src/monitors/upkeep.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "client/src/gateway/gateway.h"
#include "client/src/gateway/host_monitor.h"
#include "client/src/monitors/update_router.h"
#include "common/base/log.h"
#include "common/base/own_pause.h"
#include "common/base/quantity.h"
#include "common/bus/bus.h"
#include "common/config/config.h"
#include "common/config/config_keys.h"
#include "common/security/keys.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kRenewLimit{5};
/// A host that does not answer for this long is named. With the time between two questions this
/// stays within the 5 s of spec 8.7.
constexpr std::chrono::seconds kHostAskLimit{3};

Result<std::uint64_t> incarnation_in(const Result<ControlMessage>& answer) {
  if (!answer) return fail(answer.error());
  if (const auto* const state = answer->body_as<wire::HostState>()) return state->incarnation();
  return fail(ErrorCode::malformed_message, "it answered " + answer->body_name() + " to GetHost");
}

}  // namespace

void Upkeep::start() {
  turn();
}

void Upkeep::stop() {
  reactor_.cancel(std::exchange(timer_, 0));
}

std::chrono::milliseconds Upkeep::interval() const {
  using std::chrono::milliseconds;
  auto interval = std::clamp<milliseconds>(config_.duration(keys::supervision_probe),
                                           milliseconds(100), std::chrono::seconds(5));
  if (const auto given = updates_.shortest_given_lease(); given.count() > 0)
    interval = std::min(interval, std::max(given / 6, milliseconds(10)));
  return interval;
}

void Upkeep::begin_handover(const std::string& mesh, std::chrono::milliseconds lease) {
  if (gateway_.bus() == nullptr || !updates_.begin_handover(mesh, lease)) return;
  leases_.hurry(mesh);
  stop();
  turn();
}

void Upkeep::turn() {
  const auto between = interval();
  const auto now = reactor_.now();
  if (timer_ != 0 && OwnPause(2 * between).was_away(due_, now)) {
    // A turn this late means that this process was stopped: answers may still be unread.
    gateway_.extend(now);
    hosts_.extend(now);
  }
  due_ = now + between;
  timer_ = reactor_.at(due_, [this] { turn(); });

  updates_.upkeep();
  if (gateway_.is_away()) {
    if (const auto reason = gateway_.give_up(now, config_.duration(keys::delivery_limit)))
      updates_.lose_all(*reason);
    if (gateway_.should_move(now)) leave(gateway_.host());
    return;
  }
  const auto is_needed = [this](const HostAddr& host) { return updates_.is_needed(host); };
  for (const auto& host : hosts_.to_ask(is_needed)) ask(host);
  renew_leases();
}

void Upkeep::ask(const HostAddr& host) {
  gateway_.bus()->request(
      Destination::to_agent(host), wire::GetHostT(), kHostAskLimit,
      [this, host](const Result<ControlMessage>& answer) { on_answer(host, answer); });
}

void Upkeep::identify(const HostAddr& host) {
  if (gateway_.bus() != nullptr && hosts_.should_identify(host)) ask(host);
}

void Upkeep::on_answer(const HostAddr& host, const Result<ControlMessage>& answer) {
  const auto incarnation = incarnation_in(answer);
  const auto limit = config_.duration(keys::delivery_limit);
  const auto found = hosts_.on_answer(host, incarnation, gateway_.is_up(), reactor_.now(), limit);
  if (found.has_fallen_silent)
    log::warn("host " + host.to_string() + " does not answer: " + incarnation.error().to_string() +
              "; its ranks are given up after " + duration_to_text(limit) +
              " of silence (delivery.limit)");
  if (found.answers_again) log::warn("host " + host.to_string() + " answers again");
  if (found.loss) updates_.lose(host, *found.loss);
  if (!incarnation || hosts_.has_ended(host) || gateway_.bus() == nullptr) return;
  if (found.is_replaced)
    gateway_.bus()->give_up(Destination::to_agent(host), "the agent of host " + host.to_string() +
                                                             " was replaced before it answered");
  for (const auto& lease : updates_.resync(host, found.answers_again, found.is_replaced))
    leases_.hurry(lease);
}

void Upkeep::renew_leases() {
  std::map<std::pair<HostAddr, std::chrono::milliseconds>, std::vector<std::string>> by_host;
  const auto hosts = hosts_.all();
  for (const auto& lease : leases_.due(updates_.leases(), reactor_.now())) {
    for (const auto& host : hosts) {
      if (!hosts_.has_ended(host) && updates_.is_leased_on(lease.name, host))
        by_host[{host, lease.length}].push_back(lease.name);
    }
  }
  for (auto& [key, names] : by_host) {
    wire::RenewLeaseT renew;
    renew.meshes = std::move(names);
    renew.lease_ms = static_cast<std::uint32_t>(key.second.count());
    gateway_.bus()->request(
        Destination::to_agent(key.first), std::move(renew), kRenewLimit,
        [host = key.first](const Result<ControlMessage>& answer) {
          if (answer) return;
          log::debug("renewing leases on " + host.to_string() + ": " + answer.error().to_string());
        });
  }
}

bool Upkeep::on_host_ended(const HostAddr& host, const std::string& reason) {
  if (gateway_.bus() == nullptr || !hosts_.on_ended(host, reason)) return false;
  updates_.lose(host, reason);
  return true;
}

void Upkeep::leave(const HostAddr& host) {
  if (host != gateway_.host() || gateway_.is_retired() || gateway_.bus() == nullptr) return;
  if (const auto next = hosts_.next_after(host)) gateway_.move_to(*next);
}

}  // namespace meshbus
