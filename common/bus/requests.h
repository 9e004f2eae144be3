#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/bus/destination.h"
#include "common/bus/pending_requests.h"
#include "common/bus/postbox.h"
#include "common/loop/reactor.h"
#include "common/wire/control.h"

namespace meshbus {

/// Sends requests and calls and matches their answers, which must come from the peer that was
/// asked. Lives on the reactor's thread.
class Requests {
 public:
  using Answer = PendingRequests::Answer;
  using CallAnswer = PendingRequests::CallAnswer;
  using Peer = PendingRequests::Peer;

  static Error queue_is_full();
  Requests(Reactor& reactor, Postbox& postbox) : postbox_(postbox), pending_(reactor) {}

  /// Requests, calls and casts have ids of one series, so an answer belongs to one of them.
  std::uint64_t take_id() noexcept { return next_id_++; }
  /// See Bus::request. The number of the message, or 0 when it could not be sent.
  std::uint64_t request(const Destination& to, const ControlBody& body,
                        std::chrono::milliseconds deadline, Answer answer,
                        wire::Lane lane = wire::Lane::control);
  /// See Bus::call. The id of the call.
  std::uint64_t call(const Destination& to, std::uint32_t port, Bytes body,
                     std::chrono::milliseconds deadline, CallAnswer answer);

  /// The two halves of call(): the answer is awaited from now on; the message follows, with these
  /// flags. Its body is `front` and `body`. False: the queue to the broker is full.
  std::uint64_t open_call(const Destination& to, std::chrono::milliseconds deadline,
                          CallAnswer answer);
  [[nodiscard]] bool post_call(std::uint64_t id, const Destination& to, std::uint32_t port,
                               std::chrono::milliseconds deadline, Bytes front, Bytes body,
                               std::uint32_t flags);

  void on_answer(const wire::Envelope& from, ControlMessage answer);
  void on_call_answer(const wire::Envelope& from, std::uint64_t id, Result<std::string> answer);
  /// The request or call that the message of that number carries.
  std::optional<std::uint64_t> of_sequence(std::uint64_t sequence) const {
    return pending_.of_sequence(sequence);
  }
  /// The peer that was asked; null when it is not open any more.
  const Peer* find(std::uint64_t id) const { return pending_.find(id); }
  void fail(std::uint64_t id, const Error& error) { pending_.fail(id, error); }
  /// post_call() returned false: nobody hears of it.
  void drop(std::uint64_t id) { pending_.drop(id); }
  /// The same from a later turn.
  void fail_later(std::uint64_t id, Error error) { pending_.fail_later(id, std::move(error)); }
  /// Those that were sent to this peer.
  void fail_to(const Peer& peer, const Error& error) { pending_.fail_to(peer, error); }
  void fail_all(const Error& error) { pending_.fail_all(error); }

 private:
  /// Whether that request or call is open and was sent to `from`.
  bool is_open(std::uint64_t id, const wire::Envelope& from) const;

  Postbox& postbox_;
  std::uint64_t next_id_ = Postbox::first_number();
  PendingRequests pending_;
};

}  // namespace meshbus
