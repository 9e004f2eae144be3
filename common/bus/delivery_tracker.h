#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/bus/ack_batch.h"
#include "common/bus/postbox.h"
#include "common/bus/requests.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"

namespace meshbus {

/// Finds out what became of the messages that have no answer (spec 9.3): acknowledges those that
/// this peer takes, reads the acknowledgements of others, and asks receivers that stay silent.
/// Lives on the reactor's thread.
class DeliveryTracker {
 public:
  struct Events {
    /// Nobody knows what became of this message; once for each.
    std::function<void(const wire::Envelope&)> on_unknown;
    /// Runs its argument once all that came until now is taken. Empty: it is taken as it comes.
    std::function<void(std::function<void()>)> when_taken;
  };
  /// `incarnation`: ours.
  DeliveryTracker(Reactor& reactor, Postbox& postbox, Requests& requests, std::uint64_t incarnation,
                  Events events);
  ~DeliveryTracker();
  DeliveryTracker(const DeliveryTracker&) = delete;
  DeliveryTracker& operator=(const DeliveryTracker&) = delete;

  /// As receiver: this message is taken, in the order in which it came.
  void take(const wire::Envelope& envelope);
  /// Acknowledges everything that is not acknowledged yet.
  void acknowledge();
  /// A sender asks what was taken of its messages; `id` is its request's.
  void on_question(const wire::Envelope& from, std::uint64_t id);
  /// Messages of others that were taken here.
  std::uint64_t taken() const noexcept { return acks_.taken(); }

  /// As sender: a receiver says what it took.
  void on_acknowledged(const wire::Envelope& from, const wire::Taken& taken);
  /// Asks the receivers that stay silent, from time to time, as long as messages are outstanding.
  void watch();

  /// A session begins: asks about everything that the last one had sent, which may be lost with it.
  void ask_all();
  /// What it had received and not acknowledged is acknowledged again, once requests may leave.
  void acknowledge_again();

 private:
  using Receiver = SentMessages::Receiver;
  void ask(const Receiver& receiver);
  void on_asked(const Receiver& receiver, const Result<ControlMessage>& answer);
  void apply(const Receiver& from, const wire::Taken& taken);
  /// Nothing below `end` is on its way to that receiver any more.
  void settle(const Receiver& receiver, std::uint64_t end);
  void report(const std::vector<wire::Envelope>& unknown) const;

  Reactor& reactor_;
  Postbox& postbox_;
  Requests& requests_;
  std::uint64_t incarnation_;
  Events events_;
  AckBatch acks_;
  Reactor::TimerId ack_timer_ = 0;
  Reactor::TimerId silence_timer_ = 0;
  /// Lets a question that waits see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
