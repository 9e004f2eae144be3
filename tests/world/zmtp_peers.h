#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/zmtp/curve_client.h"
#include "common/zmtp/curve_key.h"
#include "common/zmtp/stream_socket.h"
#include "tests/world/loop.h"
#include "tests/world/strangers_zmtp.h"

namespace meshbus::test {

using Parts = std::vector<std::string>;

/// Messages of every size at which something changes, and some thousand at random.
inline std::vector<Parts> many_messages() {
  std::mt19937 random(20261124);
  std::vector<Parts> messages;
  for (const std::size_t size : {0U, 1U, 222U, 223U, 254U, 255U, 256U, 8158U, 8159U, 8192U, 8193U,
                                 65525U, 65536U, 70000U, 1U << 20U}) {
    messages.push_back({std::string(size, 'x')});
    messages.push_back({"head", std::string(size, 'y'), "", std::string(size / 2, 'z')});
  }
  for (int i = 0; i < 2000; ++i) {
    Parts& message = messages.emplace_back();
    for (std::size_t part = 0; part < 1 + random() % 4; ++part)
      message.emplace_back(random() % (random() % 50 == 0 ? 200'000 : 300),
                           static_cast<char>('a' + random() % 26));
  }
  messages.push_back(Parts(500, "many"));
  return messages;
}

/// A pair of CURVE keys as text.
struct TextKeys {
  TextKeys() {
    const CurveKeyPair pair = CurveKeyPair::make();
    public_key = pair.public_key.to_text();
    secret_key = pair.secret_key.to_text();
  }
  std::string public_key, secret_key;
};

/// A raw connection with keys, at the level of bytes: it can send what no client would.
struct RawCurve {
  RawCurve(Loop& its_loop, const std::string& port, const TextKeys& server, const TextKeys& client)
      : RawCurve(its_loop, port, server.public_key,
                 {client.public_key, client.secret_key, server.public_key}) {}
  RawCurve(Loop& its_loop, const std::string& port, const std::string& server_key,
           const BrokerSocket::Keys& keys)
      : loop(its_loop),
        mechanism(*CurveKeyPair::from_text(keys.public_key, keys.secret_key),
                  *CurveKey::from_text(server_key), "DEALER"),
        connection(port) {
    std::string greeting = zmtp_greeting();
    greeting.replace(12, 5, "CURVE");
    connection.write(greeting + zmtp_frame(mechanism.begin(), false, true));
  }
  /// The rest of the handshake.
  RawCurve& up() {
    REQUIRE(try_up());
    return *this;
  }
  /// False: the broker does not play along.
  bool try_up() {
    std::string heard;
    const auto hears = [&](std::size_t size) {
      return loop.until([&] { return (heard += connection.read_some()).size() >= size; },
                        std::chrono::seconds(10));
    };
    if (!connection.is_open() || !hears(64 + 2 + 168)) return false;
    const std::string initiate = mechanism.on_command(heard.substr(64 + 2, 168));
    heard.clear();
    if (!connection.write(zmtp_frame(initiate, false, true)) || !hears(2)) return false;
    // A short frame, which may come in pieces: flags, size, READY or ERROR.
    const auto size = static_cast<unsigned char>(heard[1]);
    if (!hears(std::size_t{2} + size)) return false;
    mechanism.on_command(heard.substr(2, size));
    return mechanism.state() == Mechanism::State::open;
  }
  std::string message(std::string_view text, bool has_more) {
    std::string command(text.size() + CurveTraffic::kOverhead, '\0');
    mechanism.traffic()->seal(has_more ? CurveTraffic::kMore : 0, text, command.data());
    return zmtp_frame(command, false);
  }

  Loop& loop;
  CurveClient mechanism;
  RawConnection connection;
};

/// A connection of ours to a broker's address, and what it tells.
class ZmtpClient {
 public:
  ZmtpClient(Loop& loop, const std::string& endpoint, const BrokerSocket::Keys* keys = nullptr)
      : loop_(loop) {
    BrokerSocket::Events events;
    events.on_open = [this] { ++opened; };
    events.on_handshake_failed = [this](BrokerSocket::Failure failure) { failed = failure; };
    events.on_readable = [this] {
      std::vector<MessagePart> parts;
      if (!connection->receive(parts)) return false;
      Parts& message = received.emplace_back();
      for (const auto& part : parts) message.emplace_back(part.view());
      return true;
    };
    events.on_writable = [this] { flush(); };
    events.on_ended = [this](const std::string& reason) {
      ++ended;
      why = reason;
      connection.reset();
    };
    connection = std::make_unique<StreamSocket>(
        loop.reactor, BrokerSocket::Options{.endpoint = endpoint, .keys = keys}, std::move(events));
  }
  void send(const Parts& parts) {
    Frame& frame = waiting.emplace_back();
    for (const auto& part : parts) frame.parts.emplace_back(part);
    flush();
  }
  void flush() {
    while (!waiting.empty() && connection->send(waiting.front())) waiting.pop_front();
  }
  ZmtpClient& up() {
    INFO(why);
    REQUIRE(loop_.until([this] { return opened == 1; }));
    return *this;
  }

  std::unique_ptr<StreamSocket> connection;
  std::deque<Parts> received;
  std::deque<Frame> waiting;
  std::optional<BrokerSocket::Failure> failed;
  std::string why;
  int opened = 0, ended = 0;

 private:
  Loop& loop_;
};

/// A part that libzmq has, if it has one.
inline bool receive_message(zmq::socket_t& socket, Parts& parts) {
  zmq::message_t part;
  if (!socket.recv(part, zmq::recv_flags::dontwait)) return false;
  for (;;) {
    parts.push_back(part.to_string());
    if (!part.more()) return true;
    REQUIRE(socket.recv(part).has_value());
  }
}

inline bool send_message(zmq::socket_t& socket, const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto more = i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    if (!socket.send(zmq::buffer(parts[i]), more | zmq::send_flags::dontwait)) return false;
  }
  return true;
}

}  // namespace meshbus::test
