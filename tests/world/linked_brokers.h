#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/world/broker.h"
#include "tests/world/tcp_proxy.h"

namespace meshbus::test {

/// A broker that other hosts know by the address of a proxy in front of it. Peers of its own host
/// connect without it.
inline std::unique_ptr<Broker> start_behind(TcpProxy& proxy, Loop& loop, const std::string& socket,
                                            const std::vector<Setting>& settings) {
  auto broker = start_broker(loop, "unix:" + socket, settings, [&](BrokerOptions& options) {
    options.binds.push_back(*HostAddr::parse("tcp:127.0.0.1:0"));
    options.insecure = true;
    options.advertise = *HostAddr::parse("tcp:127.0.0.1:" + std::to_string(proxy.port()));
    options.link_connect_limit = std::chrono::seconds(5);
  });
  proxy.set_target(broker->binds().back().port());
  return broker;
}

/// Two brokers, each behind a proxy.
struct LinkedBrokers {
  explicit LinkedBrokers(std::vector<Setting> with = {}) : settings(std::move(with)) {
    settings.push_back({"delivery.starting", "2s"});
    for (int i = 0; i < 2; ++i) start(i);
  }
  void start(int i) {
    brokers[i] = start_behind(proxies[i], loop, dir / std::to_string(i), settings);
  }
  void reset() {
    for (auto& proxy : proxies) proxy.reset();
  }
  void blackhole(bool is_on) {
    for (auto& proxy : proxies) proxy.blackhole(is_on);
  }
  std::uint64_t of_both(std::uint64_t Counters::* counter) const {
    return brokers[0]->counters().*counter + brokers[1]->counters().*counter;
  }

  TempDir dir;
  Loop loop;
  std::vector<Setting> settings;
  TcpProxy proxies[2] = {TcpProxy(loop), TcpProxy(loop)};
  std::unique_ptr<Broker> brokers[2];
};

}  // namespace meshbus::test
