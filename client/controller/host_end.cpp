#include "client/controller/host_end.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace meshbus {

void HostEnd::begin() {
  const auto others =
      std::stable_partition(hosts_.begin(), hosts_.end(),
                            [&](const HostAddr& host) { return !(host == gateway_.host()); });
  last_.assign(others, hosts_.end());
  hosts_.erase(others, hosts_.end());
  open_ = hosts_.size();
  if (hosts_.empty()) return end_last();
  for (const auto& host : hosts_) ask(host);
}

void HostEnd::ask(const HostAddr& host) {
  auto* const bus = gateway_.bus();
  if (bus == nullptr) {
    return on_answer(host, fail(ErrorCode::fate_unknown, "not connected"));
  }
  bus->request(Destination::to_agent(host), wire::GetHostT(), limit_,
               [weak = weak_from_this(), host](const Result<ControlMessage>& answer) {
                 if (const auto self = weak.lock()) self->on_state(host, answer);
               });
}

void HostEnd::on_state(const HostAddr& host, const Result<ControlMessage>& answer) {
  const auto* const state = answer ? answer->body_as<wire::HostState>() : nullptr;
  auto* const bus = gateway_.bus();
  if (state == nullptr || bus == nullptr) return on_answer(host, answer);
  const auto* const owner = state->owner();
  const bool ends_with_us = owner != nullptr && !owner->gone() &&
                            owner->loss() != wire::OwnerLoss::detach &&
                            supervisor_.is_us(text_of(owner->owner()));
  if (!ends_with_us) return on_answer(host, answer);
  bus->request(Destination::to_agent(host), wire::ShutdownHostT(order_), limit_,
               [weak = weak_from_this(), host](const Result<ControlMessage>& ended) {
                 if (const auto self = weak.lock()) self->on_answer(host, ended);
               });
}

void HostEnd::on_answer(const HostAddr& host, const Result<ControlMessage>& answer) {
  // The last answer of a host that ends may be lost with it.
  if (!answer && answer.error().code() != ErrorCode::fate_unknown)
    log::warn("host " + host.to_string() + " is not ended: " + answer.error().to_string() +
              "; it ends when its lease lapses");
  const auto* const summary = answer ? answer->body_as<wire::ShutdownSummary>() : nullptr;
  if (summary != nullptr && summary->failed() != 0)
    log::warn("host " + host.to_string() + " has ended, and " + std::to_string(summary->failed()) +
              " of its " + std::to_string(summary->attempted()) +
              " procs could not be stopped: " + text_of(summary->detail()));
  if (--open_ == 0) end_last();
}

void HostEnd::end_last() {
  if (!last_.empty()) {
    const auto last = std::exchange(last_, {});
    open_ = last.size();
    for (const auto& host : last) ask(host);
    return;
  }
  is_done_ = true;
  if (const auto done = std::exchange(on_done_, nullptr)) done();
}

}  // namespace meshbus
