#include "common/bus/requests.h"

#include <cstring>
#include <utility>

#include "common/base/log.h"

namespace meshbus {

Error Requests::queue_is_full() {
  return {ErrorCode::queue_full, "the queue to the broker is full"};
}

std::uint64_t Requests::request(const Destination& to, const ControlBody& body,
                                std::chrono::milliseconds deadline, Answer answer,
                                wire::Lane lane) {
  const auto id = take_id();
  pending_.add(id, {to.proc, to.host}, deadline, std::move(answer));
  const auto bytes =
      encode_control({.id = id, .deadline_ms = static_cast<std::uint32_t>(deadline.count())}, body);
  if (bytes.size() > kBodyLimit) {
    fail_later(
        id, Error(ErrorCode::too_large, body.name() + " of " + std::to_string(bytes.size()) +
                                            " bytes; the limit is " + std::to_string(kBodyLimit)));
    return 0;
  }
  const auto sequence = postbox_.post(to.envelope(0, wire::Kind::control, lane), bytes);
  if (sequence == 0) {
    fail_later(id, Error(ErrorCode::queue_full, body.name() + ": the queue to the broker is full"));
    return 0;
  }
  pending_.set_sequence(id, sequence);
  return sequence;
}

std::uint64_t Requests::call(const Destination& to, std::uint32_t port, Bytes body,
                             std::chrono::milliseconds deadline, CallAnswer answer) {
  const auto id = open_call(to, deadline, std::move(answer));
  if (const auto limit = postbox_.body_limit(); body.size() > limit) {
    fail_later(id,
               Error(ErrorCode::too_large, "a call of " + std::to_string(body.size()) +
                                               " bytes; the limit is " + std::to_string(limit)));
  } else if (!post_call(id, to, port, deadline, {}, body, 0)) {
    fail_later(id, queue_is_full());
  }
  return id;
}

std::uint64_t Requests::open_call(const Destination& to, std::chrono::milliseconds deadline,
                                  CallAnswer answer) {
  const auto id = take_id();
  pending_.add_call(id, {to.proc, to.host}, deadline, std::move(answer));
  return id;
}

bool Requests::post_call(std::uint64_t id, const Destination& to, std::uint32_t port,
                         std::chrono::milliseconds deadline, Bytes front, Bytes body,
                         std::uint32_t flags) {
  const wire::CallHeader header(id, static_cast<std::uint32_t>(deadline.count()),
                                wire::ErrorCode::none, 0);
  MessagePart whole(sizeof header + front.size() + body.size());
  auto* at = whole.data();
  for (const Bytes part : {bytes_of(&header, sizeof header), front, body}) {
    if (!part.empty()) std::memcpy(at, part.data(), part.size());
    at += part.size();
  }
  const Bytes bytes = bytes_of(whole.data(), whole.size());
  const auto sequence = postbox_.post(to.envelope(port, wire::Kind::call, wire::Lane::data, flags),
                                      bytes, bytes.size() > kInlineLimit ? &whole : nullptr);
  if (sequence == 0) return false;
  pending_.set_sequence(id, sequence);
  return true;
}

void Requests::on_answer(const wire::Envelope& from, ControlMessage answer) {
  const auto id = answer.head().id;
  if (is_open(id, from)) pending_.finish(id, std::move(answer));
}

void Requests::on_call_answer(const wire::Envelope& from, std::uint64_t id,
                              Result<std::string> answer) {
  if (is_open(id, from)) pending_.finish_call(id, std::move(answer));
}

bool Requests::is_open(std::uint64_t id, const wire::Envelope& from) const {
  const auto* const asked = pending_.find(id);
  if (asked == nullptr) return false;  // answered already, or too late
  if (from.source_proc() == asked->proc && postbox_.is_of_host(from, asked->host)) return true;
  log::warn("bus: an answer is dropped: it does not come from the one that was asked");
  return false;
}

}  // namespace meshbus
