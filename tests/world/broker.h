#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/broker.h"
#include "common/security/token.h"
#include "tests/support/temp_dir.h"
#include "tests/world/loop.h"

namespace meshbus::test {

/// The tokens of every broker and agent of a test: one secret that all know.
inline const TokenMaker& tokens() {
  static const TokenMaker maker(std::string(TokenMaker::kSecretSize, 's'));
  return maker;
}

/// A broker at that address, on the loop. Errors: those of Broker::start().
inline Result<std::unique_ptr<Broker>> try_start_broker(
    Loop& loop, const std::string& bind, const std::vector<Setting>& settings = {},
    const std::function<void(BrokerOptions&)>& change = {}) {
  BrokerOptions options;
  options.binds = {*HostAddr::parse(bind)};
  options.tokens = tokens();
  for (const auto& [key, value] : settings) REQUIRE(options.config.set(key, value).has_value());
  if (change) change(options);
  return Broker::start(loop.reactor, std::move(options));
}

inline std::unique_ptr<Broker> start_broker(
    Loop& loop, const std::string& bind, const std::vector<Setting>& settings = {},
    const std::function<void(BrokerOptions&)>& change = {}) {
  auto broker = try_start_broker(loop, bind, settings, change);
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
