#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "broker/casts/cast_assembly.h"
#include "broker/observe/counters.h"
#include "broker/router/cast_fanout.h"
#include "broker/router/cast_relay.h"
#include "broker/router/router.h"
#include "common/base/message_part.h"
#include "common/bus/cast.h"
#include "common/loop/reactor.h"
#include "wire/forward.h"
#include "wire/frame_generated.h"

namespace meshbus {

/// Takes what has to do with casts out of the stream of messages: casts to this host, bodies that
/// the relay brings, and what must wait behind a cast whose body is not here yet. Lives on the
/// reactor's thread.
class CastReceiver {
 public:
  CastReceiver(Reactor& reactor, Router& router, CastFanout& fanout, CastRelay& relay,
               Counters& counters, std::chrono::milliseconds delivery_limit);
  ~CastReceiver();
  CastReceiver(const CastReceiver&) = delete;
  CastReceiver& operator=(const CastReceiver&) = delete;

  /// Whether it took that message, which was admitted; else the message goes on as any other.
  bool take(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Charge& charge) {
    constexpr std::uint32_t flags = kFlagCast | kFlagRelay | kFlagDetachedCast;
    if ((envelope.flags() & flags) == 0 && assembly_.empty()) [[likely]]
      return false;
    return must_wait(envelope) ? hold(envelope, body, detached)
                               : receive(envelope, body, detached, charge);
  }
  /// Messages that wait.
  std::size_t held() const noexcept { return assembly_.count(); }

 private:
  bool must_wait(const wire::Envelope& envelope) const;
  /// Always true.
  bool hold(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  bool receive(const wire::Envelope& envelope, Bytes body, MessagePart* detached, Charge& charge);
  /// From another host's broker.
  void on_relay(const wire::Envelope& envelope, Bytes body, MessagePart* detached);
  void deliver(std::vector<CastAssembly::Message> messages);
  void arm_timer();

  Reactor& reactor_;
  Router& router_;
  CastFanout& fanout_;
  CastRelay& relay_;
  Counters& counters_;
  CastAssembly assembly_;
  Reactor::TimerId timer_ = 0;
};

}  // namespace meshbus
