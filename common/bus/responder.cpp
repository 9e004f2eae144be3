#include "common/bus/responder.h"

#include <memory>
#include <utility>

#include "common/base/log.h"
#include "wire/bus_generated.h"

namespace meshbus {
namespace {

/// The largest detail of an error that is sent as the answer of a call.
constexpr std::size_t kMostErrorDetail = 64 * 1024;

/// What a CallHeader and these bytes are on the wire.
std::string with_header(const wire::CallHeader& header, Bytes body) {
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(body);
  return bytes;
}

}  // namespace

bool Responder::send(const Destination& to, const std::string& bytes, wire::Lane lane) {
  if (bytes.size() > kBodyLimit) {
    log::error("bus: a control message of " + std::to_string(bytes.size()) +
               " bytes is above the limit of " + std::to_string(kBodyLimit) + " and is dropped");
    return false;
  }
  return postbox_.post(to.envelope(0, wire::Kind::control, lane), bytes) != 0;
}

bool Responder::tell(const Destination& to, const ControlBody& body, wire::Lane lane) {
  return send(to, encode_control({}, body), lane);
}

void Responder::answer(const Request& request, const ControlBody& body) {
  if (request.head.id == 0) return;
  const auto bytes = encode_control({.id = request.head.id, .is_answer = true}, body);
  if (bytes.size() > kBodyLimit) {
    refuse(request,
           Error(ErrorCode::too_large, "the answer has " + std::to_string(bytes.size()) +
                                           " bytes; the limit is " + std::to_string(kBodyLimit) +
                                           "; ask for less at once"));
  } else if (!send(Destination::back(request.envelope), bytes, wire::Lane::control)) {
    log::warn("bus: an answer is dropped: the queue to the broker is full");
  }
}

void Responder::refuse(const Request& request, const Error& error) {
  wire::RefusalT refusal;
  refusal.code = to_wire(error.code());
  refusal.detail = cut_text(error.detail());
  answer(request, std::move(refusal));
}

void Responder::answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body,
                            std::uint32_t flags) {
  const auto bytes = with_header(wire::CallHeader(header.id(), 0, wire::ErrorCode::none, 0), body);
  if (postbox_.post(Destination::back(call).envelope(0, wire::Kind::reply, wire::Lane::data, flags),
                    bytes) == 0)
    log::warn("bus: an answer is dropped: the queue to the broker is full");
}

void Responder::fail_call(const wire::Envelope& call, const wire::CallHeader& header,
                          const Error& error, std::uint32_t flags) {
  const auto bytes = with_header(wire::CallHeader(header.id(), 0, to_wire(error.code()), 0),
                                 error.detail().substr(0, kMostErrorDetail));
  if (postbox_.post(Destination::back(call).envelope(0, wire::Kind::error, wire::Lane::data, flags),
                    bytes) == 0)
    log::warn("bus: an error answer is dropped: the queue to the broker is full");
}

void Responder::give_back(const wire::Envelope& message, const Error& error) {
  if ((message.flags() & kFlagNoReturn) != 0) return;
  wire::UndeliverableT undeliverable;
  undeliverable.envelope = std::make_unique<wire::Envelope>(message);
  undeliverable.code = to_wire(error.code());
  undeliverable.detail = cut_text(error.detail());
  tell(Destination::back(message), std::move(undeliverable), wire::Lane::control);
}

}  // namespace meshbus
