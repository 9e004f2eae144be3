#include "cli/chaos/chaos_session.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cli/support/text_error.h"
#include "client/src/base/wire_reports.h"
#include "client/src/context/context_core.h"
#include "common/wire/control.h"
#include "wire/chaos_generated.h"
#include "wire/control_generated.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;
using WallClock = std::chrono::system_clock;

/// The site is asked so often, and looked at.
constexpr std::chrono::milliseconds kPeriod{100};
constexpr std::chrono::milliseconds kFirstLook{3'000};

wire::ChaosKind to_wire(ChaosKind kind) {
  switch (kind) {
    case ChaosKind::kill: return wire::ChaosKind::kill;
    case ChaosKind::freeze: return wire::ChaosKind::freeze;
    case ChaosKind::slow: return wire::ChaosKind::slow;
    case ChaosKind::cut: return wire::ChaosKind::cut;
    case ChaosKind::mute: return wire::ChaosKind::mute;
    case ChaosKind::delay: return wire::ChaosKind::delay;
    case ChaosKind::fill: return wire::ChaosKind::fill;
  }
  return wire::ChaosKind::none;
}

}  // namespace

Result<void> ChaosSession::run(const std::vector<ChaosDeed>& plan) {
  // A connection for each host: what is cut must not carry what is asked.
  for (const auto& host : hosts_.answered()) {
    if (const auto up = connection(host)->wait_up(orders_.answer); !up)
      complain(error_words(up.error()));
  }
  auto site = Site::watch(hosts_.context, hosts_.answered(), {.period = kPeriod});
  if (!site) return fail(site.error());
  site->settle(kFirstLook);
  take_view(*site);
  const auto start = Clock::now();
  auto last = start;
  for (const auto& deed : plan) {
    listen(*site, start + deed.at);
    if (interrupted_) break;
    begin(deed);
    last = std::max(last, start + deed.at + deed.hold);
  }
  if (!interrupted_) listen(*site, last + orders_.settle);
  // Those that are still open have had their time, or nobody waits for them any more.
  const auto end = Clock::now() + (interrupted_ ? 300ms : orders_.answer);
  while (!open_.empty() && Clock::now() < end) {
    open_.front().answer.wait_for(kPeriod);
    take_answers();
  }
  take_view(*site);
  return {};
}

void ChaosSession::listen(const Site& site, Clock::time_point next) {
  for (auto now = Clock::now(); now < next && !interrupted_; now = Clock::now()) {
    const auto left = std::min(kPeriod, std::chrono::ceil<std::chrono::milliseconds>(next - now));
    pollfd watched{signals_.fd(), POLLIN, 0};
    ::poll(&watched, 1, static_cast<int>(left.count()));
    while (const auto signal = signals_.next()) {
      if (*signal != SIGWINCH) interrupted_ = signal;
    }
    take_answers();
    take_view(site);
  }
}

void ChaosSession::take_view(const Site& site) {
  const auto view = site.view(sequence_);
  sequence_ = view.sequence;
  for (auto& notice : notices_.take(view, WallClock::now())) book_.add(std::move(notice));
}

void ChaosSession::begin(const ChaosDeed& deed) {
  const auto number = book_.add(deed, WallClock::now());
  const auto& target = deed.target;
  if (target.type != ChaosTarget::Type::link)
    return ask(number, deed, target.host, /*to_broker=*/false, std::nullopt);
  ask(number, deed, target.host, /*to_broker=*/true, target.peer);
  // One way: the first end sends nothing, the other one goes on.
  if (deed.kind != ChaosKind::mute)
    ask(number, deed, *target.peer, /*to_broker=*/true, target.host);
}

void ChaosSession::ask(std::size_t number, const ChaosDeed& deed, const HostAddr& host,
                       bool to_broker, const std::optional<HostAddr>& peer) {
  auto& way = connection(host);
  wire::StartChaosT order;
  order.kind = to_wire(deed.kind);
  order.for_ms = static_cast<std::uint32_t>(deed.hold.count());
  order.requester = way->self();
  if (deed.target.type == ChaosTarget::Type::rank) {
    order.mesh = deed.target.mesh;
    order.ranks.emplace_back(deed.target.rank, deed.target.rank + 1);
  }
  order.role = deed.target.role;
  if (peer) order.peer = peer->to_string();
  if (deed.kind == ChaosKind::slow) order.percent = orders_.percent;
  if (deed.kind == ChaosKind::delay)
    order.delay_ms = static_cast<std::uint32_t>(orders_.delay.count());
  if (deed.kind == ChaosKind::fill) order.bytes = orders_.bytes;
  const auto to = to_broker ? Destination::to_broker(host) : Destination::to_agent(host);
  open_.push_back({number, host, way->ask(to, std::move(order), orders_.answer)});
}

void ChaosSession::take_answers() {
  for (auto order = open_.begin(); order != open_.end();) {
    if (order->answer.wait_for(0ms) != std::future_status::ready) {
      ++order;
      continue;
    }
    take_answer(*order);
    order = open_.erase(order);
  }
}

void ChaosSession::take_answer(Order& order) {
  const auto answer = order.answer.get();
  const auto* const started = answer ? answer->body_as<wire::ChaosStarted>() : nullptr;
  if (started == nullptr) {
    const std::string why =
        answer ? "host " + order.host.to_string() + " answered " + answer->body_name()
               : answer.error().to_string();
    return book_.fail(order.deed, why);
  }
  const WallClock::time_point began(std::chrono::duration_cast<WallClock::duration>(
      std::chrono::nanoseconds(started->time_ns())));
  book_.confirm(order.deed, order.host, began, text_of(started->detail()));
}

ConnectionUse& ChaosSession::connection(const HostAddr& host) {
  const auto found = connections_.find(host);
  if (found != connections_.end()) return found->second;
  const auto& core = hosts_.context.core();
  return connections_.emplace(host, core->connect(core, host)).first->second;
}

}  // namespace meshbus::cli
