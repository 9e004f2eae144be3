#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/bus/conservation.h"
#include "tests/integration/broker/fixture.h"
#include "tests/integration/links/proxy.h"
#include "wire/frame_generated.h"
#include "wire/logs_generated.h"

namespace meshbus::test {

inline std::string number_body(std::uint64_t number, std::size_t size) {
  std::string body(std::max(size, sizeof number), 'b');
  std::memcpy(body.data(), &number, sizeof number);
  return body;
}
inline std::uint64_t number_of(const std::string& body) {
  std::uint64_t number = 0;
  std::memcpy(&number, body.data(), std::min(body.size(), sizeof number));
  return number;
}

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

/// A peer that numbers what it sends to its partner on the other host, in both lanes, and checks
/// what it gets.
struct Talker {
  Talker(Loop& loop, const Broker& broker) {
    auto options = session_options(endpoint_of(broker), launcher_hello());
    Dispatcher handlers;
    handlers.on<wire::OutputTaken>(Role::observe,
                                   [this](const Request&, const wire::OutputTaken& taken) {
                                     hear(taken.bytes(), received_control, "control");
                                   });
    Bus::Events events;
    events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes body) {
      hear(number_of(std::string(body.substr(0, 8))), received, "data");
    };
    events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
      if (envelope.kind() == wire::Kind::message) {
        ++told[error.code()];
        told_numbers.push_back(envelope.port());
      } else {
        ++told_control;
      }
    };
    bus.emplace(loop.reactor, loop.context, std::move(options), std::move(handlers),
                std::move(events));
  }
  void hear(std::uint64_t number, std::uint64_t& last, const char* lane) {
    if (number <= last)
      problems.push_back(std::string(lane) + ": " + std::to_string(number) + " after " +
                         std::to_string(last));
    if (&last == &received) got.push_back(number);
    if (&last == &received_control) ++got_control;
    last = number;
  }
  Destination address() const { return Destination::to(*bus->self()); }
  bool say(const Talker& to, std::size_t size) {
    // The port is there to recognise it by.
    if (!bus->send(to.address(), static_cast<std::uint32_t>(sent + 1), number_body(sent + 1, size)))
      return false;
    ++sent;
    return true;
  }
  bool say_control(const Talker& to) {
    wire::OutputTakenT message;
    message.bytes = sent_control + 1;
    if (!bus->tell(to.address(), std::move(message))) return false;
    ++sent_control;
    return true;
  }

  /// What was sent to us and neither came nor was told to `from`.
  std::vector<std::uint64_t> silently_lost(const Talker& from) const {
    std::vector<std::uint64_t> known = got, lost;
    known.insert(known.end(), from.told_numbers.begin(), from.told_numbers.end());
    const std::set<std::uint64_t> numbers(known.begin(), known.end());
    for (std::uint64_t number = 1; number <= from.sent; ++number) {
      if (!numbers.contains(number)) lost.push_back(number);
    }
    return lost;
  }
  /// How many came that were told to be of unknown fate.
  std::uint64_t told_and_came(const Talker& from) const {
    return got.size() + from.told_numbers.size() - from.sent + silently_lost(from).size();
  }

  std::uint64_t sent = 0, sent_control = 0;
  /// The last that came, and all.
  std::uint64_t received = 0, received_control = 0, got_control = 0;
  std::vector<std::uint64_t> got;
  std::map<ErrorCode, std::uint64_t> told;
  std::vector<std::uint64_t> told_numbers;
  std::uint64_t told_control = 0;
  std::vector<std::string> problems;
  std::optional<Bus> bus;
};

/// Two hosts with a talker each, both up.
struct TwoTalkers {
  explicit TwoTalkers(std::vector<Setting> settings = {})
      : pair(std::move(settings)), a(pair.loop, *pair.brokers[0]), b(pair.loop, *pair.brokers[1]) {
    up();
  }
  void up() {
    REQUIRE(pair.loop.until([&] { return a.bus->is_up() && b.bus->is_up(); }));
  }
  /// Sends as long as `go` holds, at most so many ahead of what was received.
  void talk(const std::function<bool()>& go, std::uint64_t ahead = 300) {
    REQUIRE(pair.loop.until([&] {
      for (int n = 0; n < 20 && a.sent - b.received < ahead; ++n) a.say(b, 200);
      for (int n = 0; n < 20 && b.sent - a.received < ahead; ++n) b.say(a, 200);
      return !go();
    }));
  }
  bool is_quiet() const {
    return a.bus->traffic().outstanding == 0 && b.bus->traffic().outstanding == 0;
  }
  /// Every sum of spec 9.1, with everything that is alive.
  void check_sums() {
    REQUIRE(pair.loop.until([&] { return is_quiet(); }, std::chrono::seconds(60)));
    for (const auto& broker : pair.brokers) check_conservation(pair.loop, *broker);
    Conservation sums;
    for (Talker* one : {&a, &b}) sums.add("talker", one->bus->traffic());
    for (const auto& problem : sums.problems()) FAIL_CHECK(problem);
    for (Talker* one : {&a, &b}) {
      const auto& sent = one->bus->traffic().sent;
      CHECK(sent.returned + sent.unknown == one->told_numbers.size());
      auto once = one->told_numbers;
      std::sort(once.begin(), once.end());
      CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
    }
    CHECK(a.silently_lost(b).empty());
    CHECK(b.silently_lost(a).empty());
    CHECK(a.problems.empty());
    CHECK(b.problems.empty());
    MESSAGE(sums.to_string() << "; " << a.told_and_came(b) + b.told_and_came(a)
                             << " of unknown fate had been taken");
  }

  LinkedBrokers pair;
  Talker a, b;
};

inline std::uint64_t unknown(const Talker& talker) {
  const auto found = talker.told.find(ErrorCode::fate_unknown);
  return found == talker.told.end() ? 0 : found->second;
}

inline std::uint64_t all_told(const Talker& talker) {
  return talker.told_numbers.size();
}

}  // namespace meshbus::test
