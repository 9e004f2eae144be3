#include "broker/links/link_chaos.h"

#include "broker/links/link_fault.h"
#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/chaos_generated.h"

namespace meshbus {
namespace {

LinkFault::Kind kind_of(wire::ChaosKind kind) {
  switch (kind) {
    case wire::ChaosKind::cut: return LinkFault::Kind::cut;
    case wire::ChaosKind::mute: return LinkFault::Kind::mute;
    case wire::ChaosKind::delay: return LinkFault::Kind::delay;
    default: return LinkFault::Kind::none;
  }
}

}  // namespace

Result<void> LinkChaos::check(const wire::StartChaos& message) const {
  const auto refused = [this](const std::string& why) {
    return fail(ErrorCode::refused, "the broker of host " + options_.own_host + " " + why);
  };
  if (!options_.is_allowed)
    return refused(
        "is not disturbed on purpose: its setting chaos.allowed is false (meshbus host "
        "--set chaos.allowed=true)");
  const std::chrono::milliseconds length(message.for_ms());
  if (length > options_.longest)
    return refused("disturbs a link for " + std::to_string(options_.longest.count()) +
                   " ms at most (its setting chaos.longest)");
  if (kind_of(message.kind()) == LinkFault::Kind::none)
    return fail(ErrorCode::out_of_range,
                "StartChaos.kind: a broker knows cut, mute and delay of links");
  if (length.count() == 0) return fail(ErrorCode::out_of_range, "StartChaos.for_ms: at least 1");
  const bool is_delay = message.kind() == wire::ChaosKind::delay;
  if (is_delay && message.delay_ms() == 0)
    return fail(ErrorCode::out_of_range, "StartChaos.delay_ms: at least 1");
  if (links_.disturbed() >= options_.most)
    return refused("disturbs " + std::to_string(options_.most) +
                   " links already, as many as may be (its setting chaos.most)");
  return {};
}

Result<std::string> LinkChaos::start(const wire::StartChaos& message) {
  if (auto fine = check(message); !fine) return fail(fine.error());
  const auto peer = HostAddr::parse(text_of(message.peer()));
  if (!peer) return fail(peer.error().within("StartChaos.peer"));
  Link* const link = links_.find(peer->key());
  if (link == nullptr)
    return fail(ErrorCode::not_exist, "the broker of host " + options_.own_host +
                                          " has no link to " + peer->to_string() +
                                          ": nothing has been sent there yet");
  const std::chrono::milliseconds length(message.for_ms());
  const LinkFault::Order order{.kind = kind_of(message.kind()),
                               .end = reactor_.now() + length,
                               .delay = std::chrono::milliseconds(message.delay_ms())};
  if (!link->disturb(order))
    return fail(ErrorCode::refused, "the link of host " + options_.own_host + " to " +
                                        peer->to_string() + " is disturbed already");
  std::string done = order.kind == LinkFault::Kind::cut    ? "cut the link to "
                     : order.kind == LinkFault::Kind::mute ? "sends nothing over the link to "
                                                           : "delays what it sends to ";
  done += peer->to_string();
  if (order.kind == LinkFault::Kind::delay)
    done += " by " + std::to_string(order.delay.count()) + " ms";
  done += " for " + std::to_string(length.count()) + " ms";
  log::warn("on purpose (meshbus chaos): " + done);
  return done;
}

}  // namespace meshbus
