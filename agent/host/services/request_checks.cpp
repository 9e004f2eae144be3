#include "agent/host/services/request_checks.h"

#include "common/base/log.h"
#include "common/wire/control.h"
#include "wire/bus_generated.h"
#include "wire/types_generated.h"

namespace meshbus::host {

bool is_sender(const wire::Envelope& envelope, const ProcId& peer) {
  return peer.key() == envelope.source_proc() && peer.host().key() == envelope.source_host();
}

Mesh* RequestChecks::find_mesh(const Request& request, const flatbuffers::String* name) {
  Mesh* mesh = table_.find_mesh(name->string_view());
  if (mesh == nullptr)
    bus_.refuse(request, Error(ErrorCode::not_exist,
                               "host " + host_ + " has no mesh '" + name->str() + "'"));
  return mesh;
}

std::optional<ProcId> RequestChecks::find_sender(const Request& request,
                                                 const flatbuffers::String* claimed,
                                                 std::string_view field) {
  auto peer = ProcId::parse(claimed->string_view());
  if (!peer) {
    bus_.refuse(request, peer.error().within(std::string(field)));
    return std::nullopt;
  }
  if (is_sender(request.envelope, *peer)) return *peer;
  bus_.refuse(request, Error(ErrorCode::identity_mismatch,
                             std::string(field) + ": '" + peer->to_string() +
                                 "' is not the sender of this request; name the sender"));
  return std::nullopt;
}

Proc* RequestChecks::find_proc(const Request& request, const flatbuffers::String* claimed) {
  Proc* proc = table_.find_key(request.envelope.source_proc());
  const bool is_known = proc != nullptr && proc->address.to_string() == claimed->string_view() &&
                        request.envelope.source_incarnation() == proc->incarnation();
  if (is_known) return proc;
  static log::Limited limited(10);
  limited.warn("a message from proc '" + claimed->str() +
               "' is refused: it is not a live proc of this host, or not the one it says");
  bus_.refuse(request, Error(ErrorCode::identity_mismatch,
                             "host " + host_ + " has no live proc '" + claimed->str() +
                                 "' of that incarnation; only the proc itself may say this"));
  return nullptr;
}

bool RequestChecks::may_order(const Request& request, const wire::Term* term) {
  const auto may = terms_.check(request.envelope, term);
  if (may) return true;
  log::warn("an order of a controller is refused: " + may.error().to_string());
  bus_.refuse(request, may.error());
  return false;
}

void RequestChecks::ack(const Request& request) {
  bus_.answer(request, wire::AckT());
}

std::string short_text(const flatbuffers::String* text) {
  return text_of(text).substr(0, 4096);
}

}  // namespace meshbus::host
