#include "agent/proc/runtime/actor_sends.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/bus/destination.h"
#include "common/wire/frame.h"

namespace meshbus::mesh_proc {

Result<void> ActorSends::send(const ProcId& to, std::uint32_t port, const BodyParts& body) {
  // A thread that has sent a large one sees its lane.
  if (body.size() > kBodyLimit || num_lanes_.load(std::memory_order_acquire) > 0) {
    const auto waits = send_in_lane(to, port, body);
    if (!waits) return fail(waits.error());
    if (*waits) return {};
  }
  return sender_.send(to, port, body, std::chrono::milliseconds(0));
}

Result<bool> ActorSends::send_in_lane(const ProcId& to, std::uint32_t port, const BodyParts& body) {
  if (auto allowed = sender_.check_fork(); !allowed) return fail(allowed.error());
  if (sender_.is_cut()) return true;
  const bool is_large = body.size() > kBodyLimit;
  std::size_t limit = 0;
  auto fits = sender_.outgoing().use([&](Bus& bus) {
    limit = bus.body_limit();
    return bus.check_size(body.size());
  });
  if (!fits) return fail(fits.error());
  const auto key = to.key();
  {
    const std::lock_guard lock(mutex_);
    if (!is_large && !lanes_.contains(key)) return false;
    if (bytes_ > 0 && body.size() > limit - std::min(bytes_, limit))
      return fail(ErrorCode::queue_full, "messages of actors with " + std::to_string(bytes_) +
                                             " bytes wait already; there is room for " +
                                             std::to_string(limit) + " (setting message.limit)");
    bytes_ += body.size();
  }
  // Without the lock: it is long for a large one.
  auto copy = body.hold(is_large && to.host() == own_host_);
  {
    const std::lock_guard lock(mutex_);
    const auto [lane, is_new] = lanes_.try_emplace(key, Lane{.to = to});
    lane->second.messages.push_back({port, std::move(copy)});
    num_lanes_.store(lanes_.size(), std::memory_order_release);
    if (!is_new) return true;
  }
  go_on(key);
  return true;
}

void ActorSends::go_on(std::uint64_t key) {
  std::optional<ProcId> to;
  std::optional<Message> first;
  {
    const std::lock_guard lock(mutex_);
    const Lane& lane = lanes_.at(key);
    to = lane.to;
    first = lane.messages.front();
  }
  const auto begun = sender_.outgoing().use([&](Bus& bus) -> Result<void> {
    if (sender_.is_cut()) return {};
    if (first->body.bytes().size() <= kBodyLimit) {
      end_first(key, bus.send(Destination::to(*to), first->port, first->body));
      return {};
    }
    bus.send_large(
        Destination::to(*to), first->port, std::move(first->body),
        [alive = std::weak_ptr<void>(alive_)] { return !alive.expired(); },
        [this, key, alive = std::weak_ptr<void>(alive_)](const Result<void>& result) {
          if (!alive.expired()) end_first(key, result);
        });
    return {};
  });
  if (begun) return;
  reactor_.post([this, key, begun, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) end_first(key, begun);
  });
}

void ActorSends::end_first(std::uint64_t key, const Result<void>& result) {
  std::optional<wire::Envelope> failed;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(key);
    Lane& lane = found->second;
    if (!result)
      failed = Destination::to(lane.to).envelope(lane.messages.front().port, wire::Kind::message,
                                                 wire::Lane::data);
    bytes_ -= lane.messages.front().body.bytes().size();
    lane.messages.pop_front();
    is_last = lane.messages.empty();
    if (is_last) lanes_.erase(found);
    num_lanes_.store(lanes_.size(), std::memory_order_release);
  }
  if (failed) returned_(*failed, result.error());
  // Not from here: one that fails at once would call this again, however many there are.
  if (!is_last)
    reactor_.post([this, key, alive = std::weak_ptr<void>(alive_)] {
      if (!alive.expired()) go_on(key);
    });
}

}  // namespace meshbus::mesh_proc
