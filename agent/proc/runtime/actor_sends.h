#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "agent/proc/runtime/proc_sender.h"
#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/body_parts.h"
#include "meshbus/result.h"
#include "meshbus/shared_body.h"
#include "wire/forward.h"

namespace meshbus::mesh_proc {

/// Sends the messages of actors, which never wait. While a body above 1 MiB is on its way, what
/// actors send to the same proc afterwards waits behind it, so that order holds; what waits is
/// bounded by message.limit. Any thread.
class ActorSends {
 public:
  /// A message that could not be sent after all. Reactor's thread.
  using Returned = std::function<void(const wire::Envelope&, const Error&)>;
  ActorSends(Reactor& reactor, ProcSender& sender, HostAddr own_host, Returned returned)
      : reactor_(reactor),
        sender_(sender),
        own_host_(std::move(own_host)),
        returned_(std::move(returned)) {}
  ActorSends(const ActorSends&) = delete;
  ActorSends& operator=(const ActorSends&) = delete;

  /// Errors: too_large, queue_full.
  Result<void> send(const ProcId& to, std::uint32_t port, const BodyParts& body);
  /// Whether messages wait here, or are on their way.
  bool is_waiting() const noexcept { return num_lanes_.load(std::memory_order_acquire) > 0; }

 private:
  struct Message {
    std::uint32_t port;
    SharedBody body;
  };
  /// For one receiver: the first one is on its way.
  struct Lane {
    ProcId to;
    std::deque<Message> messages = {};
  };

  /// False: the message is small, and nothing is before it.
  Result<bool> send_in_lane(const ProcId& to, std::uint32_t port, const BodyParts& body);
  /// Sends the first message of that lane.
  void go_on(std::uint64_t key);
  /// The first message of that lane is on its way, or has failed.
  void end_first(std::uint64_t key, const Result<void>& result);

  Reactor& reactor_;
  ProcSender& sender_;
  const HostAddr own_host_;
  const Returned returned_;
  std::atomic<std::size_t> num_lanes_{0};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Lane> lanes_;  // guarded by mutex_; by the key of the proc
  std::size_t bytes_ = 0;                          // guarded by mutex_; of all messages in them
  /// Lets what is on its way see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus::mesh_proc
