// Spec 7.5, 9.3: the order of what many send over links on which frames come twice, late, and out
// of turn.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/links/meddler.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/hello.h"
#include "tests/world/linked_brokers.h"
#include "tests/world/loop.h"
#include "tests/world/session_options.h"
#include "tests/world/talker.h"
#include "tests/world/tcp_proxy.h"
#include "tests/world/two_talkers.h"
#include "wire/frame_generated.h"
#include "wire/logs_generated.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kHosts = 4;
constexpr std::size_t kSenders = 25;

/// One per host: hears all senders of all hosts, and holds each of them to his order, lane by lane:
/// the next number, and no other.
struct Ear {
  Ear(Loop& loop, const Broker& broker) {
    auto options = session_options(endpoint_of(broker), launcher_hello());
    Dispatcher handlers;
    handlers.on<wire::OutputTaken>(Role::observe,
                                   [this](const Request& request, const wire::OutputTaken& taken) {
                                     hear(request.envelope, taken.bytes());
                                   });
    Bus::Events events;
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader&, Bytes body) {
      hear(envelope, number_of(std::string(body.substr(0, 8))));
    };
    bus.emplace(loop.reactor, std::move(options), std::move(handlers), std::move(events));
  }
  void hear(const wire::Envelope& envelope, std::uint64_t number) {
    auto& last = streams[{envelope.source_proc(), envelope.lane()}];
    if (number != last + 1)
      problems.push_back(std::string(wire::EnumNameLane(envelope.lane())) + ": " +
                         std::to_string(number) + " after " + std::to_string(last));
    last = number;
    ++heard;
  }

  std::map<std::pair<std::uint64_t, wire::Lane>, std::uint64_t> streams;
  std::vector<std::string> problems;
  std::uint64_t heard = 0;
  std::optional<Bus> bus;
};

/// Numbers what it sends to each ear in each lane.
struct Sender {
  Sender(Loop& loop, const Broker& broker) {
    auto options = session_options(endpoint_of(broker), launcher_hello());
    Bus::Events events;
    events.on_undeliverable = [this](const wire::Envelope&, const Error& error) {
      told.push_back(error.to_string());
    };
    bus.emplace(loop.reactor, std::move(options), Dispatcher(), std::move(events));
  }
  bool say(const Ear& ear, std::size_t index, std::size_t size) {
    const auto to = Destination::to(*ear.bus->self());
    if (!bus->send(to, 1, number_body(data[index] + 1, size))) return false;
    ++data[index];
    return true;
  }
  bool say_control(const Ear& ear, std::size_t index) {
    wire::OutputTakenT message;
    message.bytes = control[index] + 1;
    if (!bus->tell(Destination::to(*ear.bus->self()), std::move(message))) return false;
    ++control[index];
    return true;
  }
  std::uint64_t all() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kHosts; ++i) sum += data[i] + control[i];
    return sum;
  }

  std::array<std::uint64_t, kHosts> data{}, control{};
  std::vector<std::string> told;
  std::optional<Bus> bus;
};

}  // namespace

TEST_CASE(
    "links: spec 7.5: 4 x 25 senders keep their order while frames come twice, late and out of "
    "turn; nothing is lost or doubled") {
  TempDir dir;
  Loop loop;
  std::vector<std::unique_ptr<TcpProxy>> proxies;
  std::vector<std::unique_ptr<FrameMeddler>> meddlers;
  std::vector<std::unique_ptr<Broker>> brokers;
  std::vector<std::unique_ptr<Ear>> ears;
  std::vector<std::unique_ptr<Sender>> senders;
  for (std::size_t i = 0; i < kHosts; ++i) {
    proxies.push_back(std::make_unique<TcpProxy>(loop));
    meddlers.push_back(std::make_unique<FrameMeddler>(
        *proxies[i], FrameMeddler::Odds{.again = 10, .late_again = 10, .swapped = 0}, i));
    brokers.push_back(start_behind(*proxies[i], loop, dir / std::to_string(i), {}));
    ears.push_back(std::make_unique<Ear>(loop, *brokers[i]));
    for (std::size_t n = 0; n < kSenders; ++n)
      senders.push_back(std::make_unique<Sender>(loop, *brokers[i]));
  }
  for (const auto& ear : ears) REQUIRE(loop.until([&] { return ear->bus->is_up(); }));
  for (const auto& sender : senders) REQUIRE(loop.until([&] { return sender->bus->is_up(); }));
  std::mt19937_64 random(25);
  const std::size_t sizes[] = {8, 64, 64, 500, 4000, kInlineLimit + 1};
  std::uint64_t sent = 0;
  const auto heard = [&] {
    std::uint64_t sum = 0;
    for (const auto& ear : ears) sum += ear->heard;
    return sum;
  };
  // A limit per host, so that a host that is cut off does not hold up messages to others.
  std::array<std::uint64_t, kHosts> sent_to{};
  const auto load = [&] {
    for (auto& sender : senders) {
      const std::size_t to = random() % kHosts;
      if (sent_to[to] - ears[to]->heard >= 2000) continue;
      const bool is_control = random() % 5 == 0;
      const bool is_sent = is_control
                               ? sender->say_control(*ears[to], to)
                               : sender->say(*ears[to], to, sizes[random() % std::size(sizes)]);
      sent_to[to] += is_sent;
      sent += is_sent;
    }
  };
  const auto load_for = [&](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    REQUIRE(loop.until([&] {
      load();
      return std::chrono::steady_clock::now() >= end;
    }));
  };
  // A connection of which one side thinks that it is over, and makes another one, while the other
  // side still gets what was on its way.
  constexpr int kTears = 12;
  for (int tear = 0; tear < kTears; ++tear) {
    const auto before = heard();
    REQUIRE(loop.until([&] {
      load();
      return heard() >= before + 1000;
    }));
    load_for(std::chrono::milliseconds(5 + random() % 30));
    TcpProxy& proxy = *proxies[random() % kHosts];
    proxy.hold();
    load_for(std::chrono::milliseconds(5 + random() % 30));
    proxy.tear();
    load_for(std::chrono::milliseconds(random() % 80));
    proxy.let_go();
  }
  REQUIRE(loop.until([&] { return heard() == sent; }, 60s));
  std::uint64_t duplicates = 0, late = 0, doubled = 0;
  for (std::size_t i = 0; i < kHosts; ++i) {
    duplicates += brokers[i]->counters().duplicate_frames;
    late += proxies[i]->late_bytes();
    doubled += meddlers[i]->doubled();
    INFO((ears[i]->problems.empty() ? std::string() : ears[i]->problems.front()));
    CHECK(ears[i]->problems.empty());
    CHECK(ears[i]->streams.size() <= 2 * senders.size());
    for (const auto& sender : senders) {
      const auto source = sender->bus->self()->key();
      CHECK(ears[i]->streams[{source, wire::Lane::data}] == sender->data[i]);
      CHECK(ears[i]->streams[{source, wire::Lane::control}] == sender->control[i]);
    }
    check_conservation(loop, *brokers[i]);
  }
  for (const auto& sender : senders) {
    INFO((sender->told.empty() ? std::string() : sender->told.front()));
    CHECK(sender->told.empty());
  }
  MESSAGE(sent << " messages of " << senders.size() << " senders: 0 lost, 0 doubled, all in order; "
               << doubled << " frames were doubled, " << kTears << " connections torn with " << late
               << " bytes that came late; " << duplicates << " frames were dropped as known");
  CHECK(doubled > 0);
  CHECK(late > 0);
  // Those that were doubled, and those that came by two connections.
  CHECK(duplicates > doubled / 2);
}

TEST_CASE(
    "links: spec 9.3: a frame that another one has overtaken is not let in late: its messages are "
    "told of, once, and no other is lost") {
  TwoTalkers two;
  std::vector<std::unique_ptr<FrameMeddler>> meddlers;
  // A connection keeps its order, so nobody but a meddler can do this.
  for (auto& proxy : two.pair.proxies)
    meddlers.push_back(std::make_unique<FrameMeddler>(
        proxy, FrameMeddler::Odds{.again = 5, .late_again = 5, .swapped = 20}, 7));
  const auto swapped = [&] { return meddlers[0]->swapped() + meddlers[1]->swapped(); };
  two.talk([&] { return swapped() < 50; }, 5000);
  for (auto& meddler : meddlers) meddler->stop();
  const auto before = two.a.got.size() + two.b.got.size();
  two.talk([&] { return two.a.got.size() + two.b.got.size() < before + 1000; }, 5000);
  two.check_sums();
  const auto told = all_told(two.a) + all_told(two.b);
  CHECK(told > 0);
  CHECK(told == unknown(two.a) + unknown(two.b));
  MESSAGE(swapped() << " frames were overtaken; of " << two.a.sent + two.b.sent << " messages "
                    << two.a.got.size() + two.b.got.size() << " came, in order, and " << told
                    << " are told to be of unknown fate");
}
