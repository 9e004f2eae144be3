#pragma once

#include <string>

#include "common/bus/destination.h"
#include "common/bus/postbox.h"
#include "common/wire/control.h"
#include "common/wire/dispatcher.h"
#include "meshbus/result.h"

namespace meshbus {

/// Answers the requests and calls of others, and returns their messages. An answer that does not
/// fit into the queue is dropped with a warning. Lives on the reactor's thread.
class Responder {
 public:
  explicit Responder(Postbox& postbox) : postbox_(postbox) {}

  /// A control message that has no answer. False when the queue is full.
  bool tell(const Destination& to, const ControlBody& body, wire::Lane lane);
  /// See the functions of Bus.
  void answer(const Request& request, const ControlBody& body);
  void refuse(const Request& request, const Error& error);
  /// `flags`: kFlagChunked, when the body is a ChunkHeader; kFlagDirect, for an answer that goes
  /// through the broker.
  void answer_call(const wire::Envelope& call, const wire::CallHeader& header, Bytes body,
                   std::uint32_t flags = 0);
  void fail_call(const wire::Envelope& call, const wire::CallHeader& header, const Error& error,
                 std::uint32_t flags = 0);
  void give_back(const wire::Envelope& message, const Error& error);

 private:
  bool send(const Destination& to, const std::string& bytes, wire::Lane lane);

  Postbox& postbox_;
};

}  // namespace meshbus
