#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include "common/bus/bus.h"
#include "tests/world/loop.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

/// A bare socket: sends what it likes and reads only when told.
class RawPeer {
 public:
  RawPeer(Loop& loop, const std::string& endpoint, const std::string& routing_id = {},
          const CurveKeys* keys = nullptr)
      : loop_(loop), socket_(loop.context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    if (!routing_id.empty()) socket_.set(zmq::sockopt::routing_id, routing_id);
    if (keys != nullptr) {
      socket_.set(zmq::sockopt::curve_publickey, keys->public_key);
      socket_.set(zmq::sockopt::curve_secretkey, keys->secret_key);
      socket_.set(zmq::sockopt::curve_serverkey, keys->servers.front());
    }
    socket_.connect(endpoint);
  }
  void send(const std::vector<std::string>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i)
      REQUIRE(socket_.send(zmq::buffer(parts[i]), i + 1 < parts.size() ? zmq::send_flags::sndmore
                                                                       : zmq::send_flags::none));
  }
  void send(const Frame& frame) {
    for (std::size_t i = 0; i < frame.parts.size(); ++i)
      REQUIRE(socket_.send(zmq::buffer(frame.parts[i].view()), i + 1 < frame.parts.size()
                                                                   ? zmq::send_flags::sndmore
                                                                   : zmq::send_flags::none));
  }
  void send_message(const wire::Envelope& envelope, Bytes body, bool link = false) {
    FrameWriter writer(envelope.lane(), link);
    writer.add(envelope, body);
    send(writer.finish());
  }
  template <typename NativeBody>
  void tell(NativeBody body, std::uint64_t id = 0, bool link = false) {
    send_message(wire::Envelope(), encode_control({.id = id}, std::move(body)), link);
  }
  /// Says Hello and waits for what the broker says: the name of the answer.
  std::string greet(wire::HelloT hello) {
    tell(std::move(hello));
    auto answer = next_control();
    return answer ? answer->body_name() : "silence";
  }
  /// The next message, of one frame at a time; nothing within the time = nothing.
  std::optional<std::pair<wire::Envelope, std::string>> next(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
    loop_.until(
        [&] {
          read();
          return !messages_.empty();
        },
        deadline);
    if (messages_.empty()) return std::nullopt;
    auto message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  std::optional<ControlMessage> next_control(
      std::chrono::milliseconds deadline = std::chrono::seconds(10)) {
    const auto message = next(deadline);
    if (!message || message->first.kind() != wire::Kind::control) return std::nullopt;
    auto control = ControlMessage::decode(message->second);
    REQUIRE(control.has_value());
    return std::move(*control);
  }

 private:
  void read() {
    for (;;) {
      std::vector<MessagePart> parts;
      zmq::message_t part;
      do {
        if (!socket_.recv(part, zmq::recv_flags::dontwait)) return;
        parts.emplace_back(part.data(), part.size());
      } while (part.more());
      auto reader = FrameReader::open(parts);
      REQUIRE(reader.has_value());
      FrameReader::Message message;
      while (reader->next(message))
        messages_.emplace_back(message.envelope, std::string(message.body));
    }
  }

  Loop& loop_;
  zmq::socket_t socket_;
  std::deque<std::pair<wire::Envelope, std::string>> messages_;
};

}  // namespace meshbus::test
