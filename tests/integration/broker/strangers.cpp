// Strangers throw everything at a broker that serves two peers: it serves on, and grows neither in
// memory nor in descriptors (spec 13.3).
#include <doctest/doctest.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <sstream>

#include "common/base/log.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/serving_broker.h"
#include "tests/world/strangers_frames.h"
#include "tests/world/strangers_zmtp.h"

using namespace meshbus;
using namespace meshbus::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

// Read before main(), which removes all our variables from the environment.
std::uint64_t number_from(const char* variable, std::uint64_t standard) {
  const char* text = std::getenv(variable);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}
const std::chrono::seconds duration(number_from("MESHBUS_TEST_STRANGERS_SECONDS", 5 * slowness));
const std::uint64_t seed = number_from("MESHBUS_TEST_STRANGERS_SEED", 20261120);

/// All that strangers do, one thing at a time.
class Strangers {
 public:
  Strangers(const ServingBroker& broker, std::uint64_t known_proc)
      : broker_(broker),
        random_(seed),
        frames_(random_, known_proc, broker.address().key()),
        known_(known_proc) {}

  static constexpr std::size_t kinds = 13;
  std::array<std::uint64_t, kinds> done{};

  void act() {
    const std::size_t kind = pick(kinds);
    ++done.at(kind);
    switch (kind) {
      case 0: hold(connect()); break;  // half open: not a byte
      case 1: broken_greeting(); break;
      case 2: lying_length(); break;
      case 3: stops_in_the_middle(); break;
      case 4: hold(shaken(pick(5) == 0 ? odd_type() : "DEALER")); break;  // never says Hello
      case 5: says({frames_.garbage(), frames_.spoil(frames_.hello(pick(2) == 0))}); break;
      case 6: says({frames_.odd_hello(), frames_.frame(false), frames_.frame(true)}); break;
      case 7: registered_talk(/*is_link=*/false); break;
      case 8: registered_talk(/*is_link=*/true); break;
      case 9: too_large(); break;
      case 10: flood_without_reading(); break;
      case 11: comes_and_goes(); break;
      default: subscribes(); break;
    }
  }
  void leave() {
    held_.clear();
    deaf_.clear();
  }
  std::size_t held() const { return held_.size() + deaf_.size(); }

 private:
  static constexpr std::size_t most_held = 100;
  static constexpr std::size_t most_deaf = 4;

  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  RawConnection connect() {
    if (pick(12) == 0) return RawConnection(broker_.monitor_path());
    return RawConnection(pick(2) == 0 ? broker_.path() : broker_.port());
  }
  RawConnection shaken(std::string_view type = "DEALER") {
    RawConnection connection = connect();
    connection.shake_hands(type);
    return connection;
  }
  std::string_view odd_type() {
    constexpr std::array<std::string_view, 6> types = {
        "REQ", "ROUTER", "PUB", "PAIR", "", "XXXXXXXXXXXXXXXXXXXXXXXX"};
    return types.at(pick(types.size()));
  }
  void hold(RawConnection connection) {
    held_.push_back(std::move(connection));
    if (held_.size() > most_held) held_.pop_front();
  }
  void part(RawConnection connection) {
    if (pick(4) == 0) connection.close_with_reset();
    if (pick(4) == 0) hold(std::move(connection));
  }

  void broken_greeting() {
    RawConnection connection = connect();
    std::string greeting = zmtp_greeting();
    switch (pick(4)) {
      case 0: greeting.resize(pick(greeting.size())); break;
      case 1: greeting[pick(greeting.size())] = static_cast<char>(random_()); break;
      case 2: greeting.replace(12, 5, pick(2) == 0 ? "PLAIN" : "CURVE"); break;
      default:
        for (char& c : greeting) c = static_cast<char>(random_());
    }
    connection.write(greeting +
                     (pick(2) == 0 ? zmtp_frame(frames_.garbage().front(), false, true) : ""));
    part(std::move(connection));
  }
  void lying_length() {
    RawConnection connection = pick(3) == 0 ? connect() : shaken();
    constexpr std::array<std::uint64_t, 5> lengths = {std::uint64_t{1} << 63, ~std::uint64_t{0},
                                                      kPartLimit + 1, kPartLimit, 1 << 30};
    connection.write(
        zmtp_long_header(lengths.at(pick(lengths.size())), static_cast<std::uint8_t>(pick(8))) +
        std::string(pick(1000), 'l'));
    part(std::move(connection));
  }
  void stops_in_the_middle() {
    RawConnection connection = shaken();
    if (pick(2) == 0) connection.send(frames_.hello(false));
    std::string bytes;
    for (const std::string& part : frames_.frame(false)) bytes += zmtp_frame(part, true);
    bytes.resize(pick(bytes.size() + 1));
    connection.write(bytes);
    part(std::move(connection));
  }
  void says(const std::vector<Parts>& all) {
    RawConnection connection = shaken();
    for (const Parts& parts : all) connection.send(pick(2) == 0 ? parts : frames_.spoil(parts));
    part(std::move(connection));
  }
  void registered_talk(bool is_link) {
    RawConnection connection = shaken();
    connection.send(frames_.hello(is_link));
    for (std::uint64_t i = 0; i < 20; ++i) {
      Parts parts = frames_.frame(is_link);
      if (!connection.send(pick(3) == 0 ? parts : frames_.spoil(std::move(parts)))) break;
      connection.is_ended();  // reads what came
    }
    part(std::move(connection));
  }
  void too_large() {
    RawConnection connection = shaken();
    if (pick(2) == 0) connection.send(frames_.hello(false));
    connection.send({std::string(kPartLimit + 1 + pick(1 << 20), 'x')});
    part(std::move(connection));
  }
  /// A registered peer that never reads, and sends requests so that it gets answers. Others send to
  /// the peers that have stopped reading.
  void flood_without_reading() {
    RawConnection connection = shaken();
    connection.send(frames_.hello(false));
    for (int i = 0; i < 100; ++i) {
      if (!connection.send(frames_.frame(false))) break;
    }
    if (pick(2) == 0) {
      for (int i = 0; i < 10; ++i)
        connection.send(frames_.flood(known_ + 1));  // to nobody: waits, and comes back
    }
    deaf_.push_back(std::move(connection));
    if (deaf_.size() > most_deaf) deaf_.pop_front();
  }
  /// To the monitor: to anything, or to everything without ever reading it.
  void subscribes() {
    RawConnection connection(broker_.monitor_path());
    connection.shake_hands(pick(4) == 0 ? odd_type() : "SUB");
    if (pick(2) == 0) connection.send({std::string("\1", 1)});
    for (int i = 0; i < 50; ++i)
      connection.send({static_cast<char>(pick(3)) + frames_.garbage().front().substr(0, pick(70))});
    hold(std::move(connection));
  }
  void comes_and_goes() {
    for (int i = 0; i < 10; ++i) {
      RawConnection connection = connect();
      if (pick(2) == 0) connection.close_with_reset();
    }
  }

  const ServingBroker& broker_;
  Random random_;
  StrangerFrames frames_;
  std::uint64_t known_;
  std::deque<RawConnection> held_;
  std::deque<RawConnection> deaf_;
};

std::uint64_t median(std::vector<std::uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers.at(numbers.size() / 2);
}

/// What bystanders are sent by strangers is worth a line each, which nobody wants to read here.
class QuietLog {
 public:
  QuietLog() {
    log::set_sink([](log::Level, std::string_view) {}, log::Level::error);
  }
  ~QuietLog() { log::set_sink({}, log::Level::warn); }
};

}  // namespace

TEST_CASE(
    "strangers: whatever they throw at a broker, it serves on, and neither its memory nor its "
    "descriptors grow") {
  const QuietLog quiet;
  Loop loop;
  ServingBroker broker;
  Bystanders bystanders(loop, broker);
  Strangers strangers(broker, bystanders.key());
  const std::size_t descriptors = broker.descriptors();

  std::vector<std::uint64_t> memory;
  const auto end = Clock::now() + duration;
  while (Clock::now() < end) {
    INFO(broker.process().describe());
    for (int i = 0; i < 20; ++i) strangers.act();
    bystanders.call();
    REQUIRE(broker.process().is_running());
    memory.push_back(broker.memory());
    CHECK(broker.descriptors() <=
          descriptors + strangers.held() + 250);  // those that are just being closed
  }
  strangers.leave();
  CHECK(loop.until([&] { return broker.descriptors() <= descriptors; }, in_time));
  bystanders.call();
  bystanders.check();

  // The first half finds the high-water mark of the allocator; from then on it stays. A short run
  // does not come so far: there the bound is what queues and windows may hold, sanitizers' share
  // included, and leaks are for the sanitizer at the end.
  REQUIRE(memory.size() >= 8);
  const std::uint64_t before =
      median({memory.begin() + static_cast<std::ptrdiff_t>(memory.size() / 2),
              memory.begin() + static_cast<std::ptrdiff_t>(memory.size() * 5 / 8)});
  const std::uint64_t after =
      median({memory.end() - static_cast<std::ptrdiff_t>(memory.size() / 8 + 1), memory.end()});
  CHECK(after <= (duration < 30s ? memory.front() + 256 * 1024 * memory_scale
                                 : before + before / 10 + 8 * 1024));
  std::ostringstream counts;
  std::uint64_t all = 0;
  for (const std::uint64_t one : strangers.done) {
    counts << " " << one;
    all += one;
  }
  MESSAGE("seed " << seed << ", " << duration.count() << " s: " << all
                  << " strangers (by kind:" << counts.str() << "); memory " << memory.front()
                  << " KiB at first, " << before << " after the half, " << after << " at the end; "
                  << broker.descriptors() << " descriptors; " << 2 * bystanders.calls()
                  << " calls by bystanders, the slowest pair in " << bystanders.slowest().count()
                  << " ms");
  check_orderly_end(broker);
}

TEST_CASE(
    "strangers: a broker that they leave without descriptors serves those it has, and all others "
    "when they are gone") {
  Loop loop;
  ServingBroker broker({"prlimit", "--nofile=200:200"});
  Bystanders bystanders(loop, broker);
  const std::size_t descriptors = broker.descriptors();
  std::vector<RawConnection> crowd;
  INFO(broker.process().describe());
  for (int i = 0; i < 300; ++i) crowd.emplace_back(i % 4 == 3 ? broker.path() : broker.port());
  broker.process().wait_for_output("makes room", in_time);
  for (int i = 0; i < 20; ++i) bystanders.call();
  CHECK(broker.descriptors() <= 150);  // a quarter is kept
  crowd.clear();
  CHECK(loop.until([&] { return broker.descriptors() <= descriptors; }, in_time));
  TestPeer late(loop, broker.tcp_endpoint(), launcher_hello()),
      later(loop, broker.unix_endpoint(), launcher_hello());
  late.up();
  later.up();
  bystanders.call();
  bystanders.check();
  check_orderly_end(broker);
}
