// Links between real brokers over networks that misbehave: cuts lose nothing and double nothing, and after the delivery limit every message
// has come back or is told to be of unknown fate, once.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "meshbus/key.h"
#include "tests/integration/broker_fixture.h"
#include "tests/integration/links_proxy.h"
#include "tests/support/sanitizer_scale.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

std::string number_body(std::uint64_t number, std::size_t size) {
  std::string body(std::max(size, sizeof number), 'b');
  std::memcpy(body.data(), &number, sizeof number);
  return body;
}
std::uint64_t number_of(const std::string& body) {
  std::uint64_t number = 0;
  std::memcpy(&number, body.data(), std::min(body.size(), sizeof number));
  return number;
}

/// Two brokers, each known by the address of a proxy in front of it.
struct Pair {
  explicit Pair(std::vector<Setting> with = {}) : settings(std::move(with)) {
    settings.push_back({"delivery.starting", "2s"});
    for (int i = 0; i < 2; ++i) start(i);
  }
  void start(int i) {
    brokers[i] = start_broker(loop, "tcp:127.0.0.1:0", settings, [&](BrokerOptions& options) {
      options.insecure = true;
      options.advertise = *HostAddr::parse("tcp:127.0.0.1:" + std::to_string(proxies[i].port()));
      options.link_connect_limit = 5s;
    });
    proxies[i].set_target(brokers[i]->binds().front().port());
  }
  void reset() {
    for (auto& proxy : proxies) proxy.reset();
  }
  void blackhole(bool is_on) {
    for (auto& proxy : proxies) proxy.blackhole(is_on);
  }
  std::uint64_t of_both(std::uint64_t Counters::*counter) const {
    return brokers[0]->counters().*counter + brokers[1]->counters().*counter;
  }

  Loop loop;
  std::vector<Setting> settings;
  TcpProxy proxies[2] = {TcpProxy(loop), TcpProxy(loop)};
  std::unique_ptr<Broker> brokers[2];
};

/// A peer that numbers what it sends to its partner on the other host, in both lanes, and checks what it gets.
struct Talker {
  Talker(Loop& loop, const Broker& broker) {
    Session::Options options;
    options.endpoint = endpoint_of(broker);
    options.hello = launcher_hello();
    Dispatcher handlers;
    handlers.on<wire::OutputTaken>(Role::observe,
                                   [this](const Request&, const wire::OutputTaken& taken) { hear(taken.bytes(), received_control, "control"); });
    Bus::Events events;
    events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes body) {
      hear(number_of(std::string(body.substr(0, 8))), received, "data");
    };
    events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
      if (envelope.kind() == wire::Kind::message) {
        ++told[error.code()];
        told_sequences.push_back(envelope.sequence());
      } else {
        ++told_control;
      }
    };
    bus.emplace(loop.reactor, loop.context, std::move(options), std::move(handlers), std::move(events));
  }
  void hear(std::uint64_t number, std::uint64_t& count, const char* lane) {
    if (number != count + 1) problems.push_back(std::string(lane) + ": " + std::to_string(number) + " after " + std::to_string(count));
    count = number;
    last_heard = std::chrono::steady_clock::now();
  }
  Destination address() const { return Destination::to(*bus->self()); }
  bool say(const Talker& to, std::size_t size) {
    if (!bus->send(to.address(), 1, number_body(sent + 1, size))) return false;
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

  std::uint64_t sent = 0, sent_control = 0, received = 0, received_control = 0;
  std::map<ErrorCode, std::uint64_t> told;
  std::vector<std::uint64_t> told_sequences;
  std::uint64_t told_control = 0;
  std::vector<std::string> problems;
  std::chrono::steady_clock::time_point last_heard{};
  std::optional<Bus> bus;
};

}  // namespace

TEST_CASE("links: 100 resets under load lose nothing, double nothing and keep the order of each pair and lane") {
  Pair pair;
  std::vector<std::unique_ptr<Talker>> talkers[2];
  constexpr std::size_t kPairs = 3;
  for (int side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < kPairs; ++i) talkers[side].push_back(std::make_unique<Talker>(pair.loop, *pair.brokers[side]));
  }
  for (auto& side : talkers) {
    for (auto& talker : side) REQUIRE(pair.loop.until([&] { return talker->bus->is_up(); }));
  }
  std::mt19937_64 random(6);
  const auto pick = [&](std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random); };
  const std::size_t sizes[] = {8, 64, 64, 64, 500, 4000, kInlineLimit + 1};
  const auto load = [&] {
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        Talker& from = *talkers[side][i];
        const Talker& to = *talkers[1 - side][i];
        for (int n = 0; n < 20 && from.sent - to.received < 500; ++n) from.say(to, sizes[pick(std::size(sizes))]);
        if (from.sent_control - to.received_control < 50) from.say_control(to);
      }
    }
  };
  const auto all_received = [&] {
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < kPairs; ++i) {
        if (talkers[1 - side][i]->received != talkers[side][i]->sent) return false;
        if (talkers[1 - side][i]->received_control != talkers[side][i]->sent_control) return false;
      }
    }
    return true;
  };
  constexpr int kResets = 100;
  std::chrono::milliseconds longest{0};
  const auto start = std::chrono::steady_clock::now();
  for (int reset = 0; reset < kResets; ++reset) {
    // Under way for a random moment, then cut where it is.
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2 + pick(30));
    const auto before = talkers[0][0]->received + talkers[1][0]->received;
    REQUIRE(pair.loop.until([&] {
      load();
      return std::chrono::steady_clock::now() >= until && talkers[0][0]->received + talkers[1][0]->received > before;
    }));
    const auto cut = std::chrono::steady_clock::now();
    if (pick(4) == 0) {
      pair.reset();
    } else {
      pair.proxies[pick(2)].reset();
    }
    const auto heard = talkers[0][0]->received + talkers[1][0]->received;
    REQUIRE(pair.loop.until([&] {
      load();
      return talkers[0][0]->received + talkers[1][0]->received > heard;
    }));
    longest = std::max(longest, std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - cut));
  }
  REQUIRE(pair.loop.until(all_received, 30s));
  std::uint64_t sent = 0, sent_control = 0;
  for (auto& side : talkers) {
    for (auto& talker : side) {
      sent += talker->sent;
      sent_control += talker->sent_control;
      INFO((talker->problems.empty() ? std::string() : talker->problems.front()));
      CHECK(talker->problems.empty());
      CHECK(talker->told.empty());
      CHECK(talker->told_control == 0);
    }
  }
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
  MESSAGE(kResets << " resets in " << elapsed.count() << " ms: " << sent << " data and " << sent_control
                  << " control messages, 0 lost, 0 doubled; " << pair.of_both(&Counters::replayed_frames) << " frames sent again, "
                  << pair.of_both(&Counters::duplicate_frames) << " came twice; longest silence after a reset " << longest.count() << " ms");
  CHECK(pair.of_both(&Counters::replayed_frames) > 0);
  for (const auto& broker : pair.brokers) check_conservation(pair.loop, *broker);
}
