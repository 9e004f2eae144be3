#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bus/bus.h"
#include "common/wire/protocol.h"
#include "tests/world/loop.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"

namespace meshbus::test {

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
    bus.emplace(loop.reactor, std::move(options), std::move(handlers), std::move(events));
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

}  // namespace meshbus::test
