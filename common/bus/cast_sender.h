#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/bus/cast.h"
#include "common/bus/cast_calls.h"
#include "common/bus/introductions.h"
#include "common/bus/postbox.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"

namespace meshbus {

class Requests;

/// Sends messages and calls to every rank of a view (spec 7.4): one message to our broker, which
/// makes the copies. Lives on the reactor's thread.
class CastSender {
 public:
  /// A message that was cast came back, for one rank.
  using OnUndeliverable = std::function<void(const wire::Envelope&, const Error&)>;
  CastSender(Reactor& reactor, Postbox& postbox, Introductions& introductions,
             OnUndeliverable on_undeliverable);

  /// Whether our broker knows casts; brokers of old releases do not.
  void set_supported(bool is_supported) noexcept { is_supported_ = is_supported; }
  /// See Bus::cast. `flags`: kFlagChunked, when the body is a ChunkHeader.
  Result<void> cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return,
                    std::uint32_t flags = 0);
  /// See Bus::cast_call; `id` is of no other request.
  void call(std::uint64_t id, const std::shared_ptr<const CastPlan>& to, std::uint32_t port,
            Bytes body, std::chrono::milliseconds deadline, CastCalls::Answer answer);

  /// The second half of call(), for an id that was added to calls(): sends the message, whose body
  /// is `front` and `body`. False: the queue is full, and nothing was sent.
  [[nodiscard]] bool post_call(std::uint64_t id, const CastPlan& to, std::uint32_t port,
                               std::chrono::milliseconds deadline, Bytes front, Bytes body,
                               std::uint32_t flags);
  /// Sends a chunk of a body to every rank. False: the queue is full, and `answer` is not called.
  [[nodiscard]] bool call_chunk(std::uint64_t id, const std::shared_ptr<const CastPlan>& to,
                                Bytes header, Bytes chunk, std::chrono::milliseconds deadline,
                                CastCalls::Answer answer);

  /// The answer of a rank of calls().
  void on_answer(std::uint64_t id, const wire::Envelope& from, Result<std::string> answer);
  /// A message that was cast came back, or nobody knows what became of it: for one rank, for all on
  /// a host, or for all.
  void on_returned(const wire::Envelope& envelope, const Error& error);
  /// The same from a later turn.
  void on_returned_later(const wire::Envelope& envelope, const Error& error);
  CastCalls& calls() noexcept { return calls_; }

 private:
  /// Whether our broker does that, and all of it fits into messages and into what may be
  /// outstanding.
  Result<void> check(const CastPlan& to, std::size_t header, std::size_t bytes,
                     bool needs_room) const;
  /// Sends one piece of a cast; `head` comes before the body. Its number, or 0 when the queue is
  /// full.
  std::uint64_t post(const CastPlan& to, std::size_t piece, std::uint32_t port, wire::Kind kind,
                     Bytes head, Bytes body, std::uint32_t flags);
  /// The copy for one rank of a message came back.
  void return_one(const wire::Envelope& envelope, std::uint64_t proc, std::uint64_t host,
                  const Error& error);

  Reactor& reactor_;
  Postbox& postbox_;
  Introductions& introductions_;
  OnUndeliverable on_undeliverable_;
  CastCalls calls_{reactor_};
  bool is_supported_ = true;
  /// Lets posted work see that this object is gone.
  std::shared_ptr<void> alive_ = std::make_shared<char>();
};

}  // namespace meshbus
