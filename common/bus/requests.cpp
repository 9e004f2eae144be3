#include "common/bus/requests.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace meshbus {

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
  const auto id = take_id();
  pending_.add_call(id, {to.proc, to.host}, deadline, std::move(answer));
  const wire::CallHeader header(id, static_cast<std::uint32_t>(deadline.count()),
                                wire::ErrorCode::none, 0);
  const auto limit = std::min(postbox_.body_limit(), kBodyLimit - sizeof header);
  if (body.size() > limit) {
    fail_later(id,
               Error(ErrorCode::too_large, "a call of " + std::to_string(body.size()) +
                                               " bytes; the limit is " + std::to_string(limit)));
    return id;
  }
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(body);
  const auto sequence = postbox_.post(to.envelope(port, wire::Kind::call, wire::Lane::data), bytes);
  if (sequence == 0) {
    fail_later(id, Error(ErrorCode::queue_full, "the queue to the broker is full"));
    return id;
  }
  pending_.set_sequence(id, sequence);
  return id;
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
