#include "common/bus/cast_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/log.h"

namespace meshbus {
namespace {

Error broker_queue_is_full() {
  return {ErrorCode::queue_full, "the queue to the broker is full"};
}

}  // namespace

CastSender::CastSender(Reactor& reactor, Postbox& postbox, Introductions& introductions,
                       OnUndeliverable on_undeliverable)
    : reactor_(reactor),
      postbox_(postbox),
      introductions_(introductions),
      on_undeliverable_(std::move(on_undeliverable)) {}

Result<void> CastSender::check(const CastPlan& to, std::size_t header, std::size_t bytes,
                               bool needs_room) const {
  if (!is_supported_)
    return fail(ErrorCode::version_mismatch,
                "our broker is of a release of meshbus that knows no casts: update that host");
  for (const auto& piece : to.pieces) {
    const auto room = kBodyLimit - std::min(kBodyLimit, piece.front.size() + header);
    const auto limit = std::min(postbox_.body_limit(), room);
    if (bytes > limit)
      return fail(ErrorCode::too_large, "a cast of " + std::to_string(bytes) +
                                            " bytes; the limit for this view is " +
                                            std::to_string(limit));
  }
  if (!needs_room) return {};
  return postbox_.with_sent([&](const SentMessages& sent, std::uint64_t) -> Result<void> {
    if (sent.has_room(to.targets.size())) return {};
    return fail(ErrorCode::queue_full, std::to_string(sent.count()) +
                                           " messages are on their way to receivers that have not "
                                           "acknowledged them");
  });
}

std::uint64_t CastSender::post(const CastPlan& to, std::size_t piece, std::uint32_t port,
                               wire::Kind kind, Bytes head, Bytes body, std::uint32_t flags) {
  for (const auto& host : to.hosts) introductions_.introduce(host);
  const std::string& front = to.pieces[piece].front;
  MessagePart bytes(front.size() + head.size() + body.size());
  auto* at = bytes.data();
  for (const Bytes part : {Bytes(front), head, body}) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  return postbox_.post_cast(to, piece,
                            Destination().envelope(port, kind, wire::Lane::data, kFlagCast | flags),
                            bytes, body.size());
}

Result<void> CastSender::cast(const CastPlan& to, std::uint32_t port, Bytes body, bool no_return,
                              std::uint32_t flags) {
  if (auto fits = check(to, 0, body.size(), !no_return); !fits) return fits;
  for (std::size_t piece = 0; piece < to.pieces.size(); ++piece) {
    if (post(to, piece, port, wire::Kind::message, {}, body,
             flags | (no_return ? kFlagNoReturn : 0)) != 0)
      continue;
    if (piece == 0) return fail(broker_queue_is_full());
    // The first ranks have it already: the others fail one by one.
    reactor_.post([this, ordinals = to.pieces[piece].ordinals, targets = to.targets, port,
                   no_return, alive = std::weak_ptr<void>(alive_)] {
      if (alive.expired() || no_return) return;
      for (const auto ordinal : ordinals) {
        const Destination rank{targets[ordinal].proc, targets[ordinal].host, {}};
        on_undeliverable_(rank.envelope(port, wire::Kind::message, wire::Lane::data),
                          broker_queue_is_full());
      }
    });
  }
  return {};
}

void CastSender::call(std::uint64_t id, const std::shared_ptr<const CastPlan>& to,
                      std::uint32_t port, Bytes body, std::chrono::milliseconds deadline,
                      CastCalls::Answer answer) {
  calls_.add(id, to, deadline, std::move(answer));
  const auto fits = check(*to, sizeof(wire::CallHeader), body.size(), false);
  if (fits && post_call(id, *to, port, deadline, {}, body, 0)) return;
  for (const auto& piece : to->pieces) {
    calls_.add_sequence(id, 0);
    calls_.fail_later(id, piece.ordinals, fits ? broker_queue_is_full() : fits.error());
  }
}

bool CastSender::post_call(std::uint64_t id, const CastPlan& to, std::uint32_t port,
                           std::chrono::milliseconds deadline, Bytes front, Bytes body,
                           std::uint32_t flags) {
  const wire::CallHeader header(id, static_cast<std::uint32_t>(deadline.count()),
                                wire::ErrorCode::none, 0);
  std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  head.append(front);
  for (std::size_t piece = 0; piece < to.pieces.size(); ++piece) {
    const auto sequence = post(to, piece, port, wire::Kind::call, head, body, flags);
    if (sequence == 0 && piece == 0) return false;
    calls_.add_sequence(id, sequence);
    if (sequence == 0) calls_.fail_later(id, to.pieces[piece].ordinals, broker_queue_is_full());
  }
  return true;
}

bool CastSender::call_chunk(std::uint64_t id, const std::shared_ptr<const CastPlan>& to,
                            Bytes header, Bytes chunk, std::chrono::milliseconds deadline,
                            CastCalls::Answer answer) {
  calls_.add(id, to, deadline, std::move(answer));
  if (post_call(id, *to, 0, deadline, header, chunk, kFlagChunk)) return true;
  calls_.drop(id);
  return false;
}

void CastSender::on_answer(std::uint64_t id, const wire::Envelope& from,
                           Result<std::string> answer) {
  const CastPlan& plan = calls_.plan(id);
  const auto found = plan.ordinal_of_proc.find(from.source_proc());
  if (found == plan.ordinal_of_proc.end() ||
      !postbox_.is_of_host(from, plan.targets[found->second].host))
    return log::warn("bus: an answer is dropped: it does not come from one that was asked");
  calls_.finish(id, found->second, std::move(answer));
}

void CastSender::return_one(const wire::Envelope& envelope, std::uint64_t proc, std::uint64_t host,
                            const Error& error) {
  // A message that is known to be taken, or was reported already, is not reported again.
  if (is_tracked(envelope) &&
      !postbox_.forget(proc, host, envelope, error.code() == ErrorCode::fate_unknown))
    return;
  wire::Envelope copy = envelope;
  copy.mutate_destination_proc(proc);
  copy.mutate_destination_host(host == 0 ? postbox_.own_host() : host);
  on_undeliverable_(copy, error);
}

void CastSender::on_returned(const wire::Envelope& envelope, const Error& error) {
  if (envelope.kind() == wire::Kind::call)
    return calls_.fail_returned(envelope, postbox_.own_host(), error);
  const std::uint64_t host = envelope.destination_host();
  if (envelope.destination_proc() != 0)
    return return_one(envelope, envelope.destination_proc(), host, error);
  const auto holders = postbox_.with_sent(
      [&](SentMessages& sent, std::uint64_t) { return sent.holders(envelope.sequence()); });
  for (const auto& receiver : holders) {
    if (host == 0 || host == postbox_.own_host() || receiver.host == host)
      return_one(envelope, receiver.proc, receiver.host, error);
  }
}

void CastSender::on_returned_later(const wire::Envelope& envelope, const Error& error) {
  reactor_.post([this, envelope, error, alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) on_returned(envelope, error);
  });
}

}  // namespace meshbus
