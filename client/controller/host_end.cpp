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
    const Error problem(ErrorCode::fate_unknown, "not connected");
    return on_answer(host, &problem);
  }
  bus->request(Destination::to_agent(host), wire::ShutdownHostT(order_), limit_,
               [weak = weak_from_this(), host](const Result<ControlMessage>& answer) {
                 if (const auto self = weak.lock())
                   self->on_answer(host, answer ? nullptr : &answer.error());
               });
}

void HostEnd::on_answer(const HostAddr& host, const Error* problem) {
  // The last answer of a host that ends may be lost with it.
  if (problem != nullptr && problem->code() != ErrorCode::fate_unknown)
    log::warn("host " + host.to_string() + " is not ended: " + problem->to_string() +
              "; it ends when its lease lapses");
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
