#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include "broker/broker.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/launcher_name.h"
#include "common/security/token.h"
#include "common/wire/protocol.h"
#include "tests/support/temp_dir.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

/// One reactor for brokers and peers alike, driven by the test.
class Loop {
 public:
  Loop() { context.set(zmq::ctxopt::max_sockets, 20000); }
  /// Turns until `predicate` holds; false when it does not within the deadline.
  bool until(const std::function<bool()>& predicate,
             std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!predicate()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      reactor.turn(std::chrono::milliseconds(5));
    }
    return true;
  }
  /// Turns for that time, for what must not happen.
  void run_for(std::chrono::milliseconds time) {
    until([] { return false; }, time);
  }

  zmq::context_t context{1};
  Reactor reactor;
};

inline const TokenMaker& tokens() {
  static const TokenMaker maker(std::string(TokenMaker::kSecretSize, 's'));
  return maker;
}

inline std::unique_ptr<Broker> start_broker(Loop& loop, const std::string& bind,
                                            const std::vector<Setting>& settings = {},
                                            std::function<void(BrokerOptions&)> change = {}) {
  BrokerOptions options;
  options.binds = {*HostAddr::parse(bind)};
  options.tokens = tokens();
  for (const auto& [key, value] : settings) REQUIRE(options.config.set(key, value).has_value());
  if (change) change(options);
  auto broker = Broker::start(loop.reactor, loop.context, std::move(options));
  INFO((broker ? std::string() : broker.error().to_string()));
  REQUIRE(broker.has_value());
  return std::move(*broker);
}

inline std::string endpoint_of(const Broker& broker, std::size_t bind = 0) {
  return broker.binds().at(bind).zmq_endpoint();
}

/// A broker on a unix socket of its own, with the loop that drives it.
struct LocalBroker {
  template <typename... Settings>
  explicit LocalBroker(Settings... settings)
      : dir(), broker(start_broker(loop, "unix:" + (dir / "b"), {settings...})) {}
  std::string endpoint() const { return endpoint_of(*broker); }

  TempDir dir;
  Loop loop;
  std::unique_ptr<Broker> broker;
};

inline wire::HelloT launcher_hello() {
  auto hello = hello_of(wire::PeerKind::launcher, "");
  LauncherName::draw().introduce(hello);
  return hello;
}

inline wire::HelloT proc_hello(const HostAddr& host, std::uint64_t rank,
                               std::uint64_t incarnation = random_u64()) {
  auto hello =
      hello_of(wire::PeerKind::proc,
               ProcId(host, proc_name(*Name::make("trainers", 7), rank)).to_string(), incarnation);
  hello.token = tokens().make(hello.peer, hello.incarnation);
  return hello;
}

/// A Bus that answers calls with "re: " + their body, and writes down what it hears.
class TestPeer {
 public:
  TestPeer(Loop& loop, const std::string& endpoint, wire::HelloT hello,
           std::function<Result<CurveKeys>()> keys = {})
      : loop_(loop) {
    auto options = session_options(endpoint, std::move(hello));
    options.keys = std::move(keys);
    options.hello.capabilities = kCapabilities;
    Dispatcher handlers;
    handlers.on<wire::Gone>(Role::broker, [this](const Request& request, const wire::Gone& heard) {
      gone.push_back(
          {request.head.id, heard.proc()->str(), heard.incarnation(), text_of(heard.reason())});
    });
    Bus::Events events;
    events.on_up = [this](const wire::Welcome& welcome) {
      ++ups;
      role = welcome.role();
      host = welcome.host()->str();
    };
    events.on_down = [this](const std::string&) { ++downs; };
    events.on_trouble = [this](const std::string& reason) { trouble = reason; };
    events.on_refused = [this](const Error& error) { refused = error; };
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                            Bytes body) {
      received.emplace_back(envelope, std::string(body));
      if (envelope.kind() == wire::Kind::call)
        bus->answer_call(envelope, header, "re: " + std::string(body));
    };
    events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
      returned.emplace_back(envelope, error);
    };
    bus.emplace(loop.reactor, loop.context, std::move(options), std::move(handlers),
                std::move(events));
  }
  /// Waits until it is registered.
  TestPeer& up() {
    const bool is_up = loop_.until([this] { return bus->is_up() || refused; });
    INFO((refused ? refused->to_string() : std::string()));
    REQUIRE(is_up);
    REQUIRE_FALSE(refused.has_value());
    return *this;
  }
  Destination address() const { return Destination::to(*bus->self()); }
  /// Waits for an answer to that call.
  Result<std::string> call(const Destination& to, Bytes body,
                           std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    std::optional<Result<std::string>> answer;
    bus->call(to, 1, body, deadline,
              [&](Result<std::string> result) { answer = std::move(result); });
    REQUIRE(loop_.until([&] { return answer.has_value(); }, deadline + std::chrono::seconds(5)));
    return *answer;
  }
  template <typename NativeBody>
  Result<ControlMessage> ask(const Destination& to, NativeBody body) {
    std::optional<Result<ControlMessage>> answer;
    bus->request(to, std::move(body), std::chrono::seconds(20),
                 [&](Result<ControlMessage> result) { answer = std::move(result); });
    REQUIRE(loop_.until([&] { return answer.has_value(); }, std::chrono::seconds(25)));
    return std::move(*answer);
  }

  struct GoneHeard {
    std::uint64_t request;
    std::string proc;
    std::uint64_t incarnation;
    std::string reason;
  };
  int ups = 0;
  int downs = 0;
  Role role = Role::none;
  std::string host;
  std::optional<Error> refused;
  std::string trouble;
  std::vector<std::pair<wire::Envelope, std::string>> received;
  std::vector<std::pair<wire::Envelope, Error>> returned;
  std::vector<GoneHeard> gone;
  std::optional<Bus> bus;

 private:
  Loop& loop_;
};

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
  void send(Frame frame) {
    for (std::size_t i = 0; i < frame.parts.size(); ++i)
      REQUIRE(socket_.send(frame.parts[i], i + 1 < frame.parts.size() ? zmq::send_flags::sndmore
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
      std::vector<zmq::message_t> parts;
      do {
        zmq::message_t part;
        if (!socket_.recv(part, zmq::recv_flags::dontwait)) return;
        parts.push_back(std::move(part));
      } while (parts.back().more());
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

/// Whether every message is accounted for (spec 9.1), once nothing is on its way any more.
inline void check_conservation(Loop& loop, const Broker& broker) {
  const auto holds = [&] {
    const Counters counters = broker.counters();
    return counters.received + counters.originated ==
           counters.delivered + counters.handled + counters.returned + counters.fate_unknown +
               counters.all_dropped() + broker.held();
  };
  loop.until(holds, std::chrono::seconds(2));
  INFO(broker.counters().to_string());
  INFO("held " << broker.held());
  CHECK(holds());
}

}  // namespace meshbus::test
