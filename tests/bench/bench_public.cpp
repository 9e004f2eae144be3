// Benchmark public: what programs get that are written with the public libraries
// (tests/bench/public), beside the bus inside and NATS.
#include <sstream>

#include "bench/child.h"
#include "tests/bench/benches.h"
#include "tests/bench/nats.h"
#include "tests/bench/program.h"
#include "tests/bench/traffic.h"

namespace meshbus::bench {

Figures by_program(const std::string& what, std::size_t size, std::size_t amount) {
  Child program(
      {own_folder() + "meshbus-bench-public", what, std::to_string(size), std::to_string(amount)});
  Figures figures;
  for (int i = 0; i < 3; ++i) {
    std::istringstream line(program.read_line());
    std::string name;
    double value = 0;
    line >> name >> value;
    figures[name] = value;
  }
  return figures;
}

namespace {

using Direction = Bar::Direction;

Side ours(const std::string& what, const char* about, std::size_t size, std::size_t amount) {
  return {what, Part::ours, about, [=] { return by_program(what, size, amount); }};
}

/// Calls of 64 bytes on one host.
Case calls_of_one_host(const Nats& nats, std::size_t count) {
  const auto measure = [count](const Way& way) { return round_trips(way, 64, count); };
  Case calls{.size = 64, .unit = "B there and back", .sides = {}, .bars = {}};
  nats.add_to(calls.sides, Between::nats, "", "one nats-server", measure);
  calls.sides.push_back({"internal", Part::floor, "a call and its answer",
                         [=] { return measure({Transport::bus_calls, Between::broker}); }});
  calls.sides.push_back(ours("proc-call", "Proc::call from main()", 64, count));
  calls.sides.push_back(
      ours("proc-call-broker", "the same, direct.paths=false: through the broker", 64, count));
  calls.sides.push_back(ours("context-call", "Context::call of a launcher", 64, count));
  calls.sides.push_back(ours("context-actor", "ActorMesh::call of a launcher", 64, count));
  calls.bars = {{"p50_us", "proc-call", "internal", Direction::at_most, 1.1, {}},
                {"p50_us", "proc-call", "nats bare", Direction::at_most, 0.95, 0.4},
                {"p50_us", "proc-call", "nats library"},
                {"p50_us", "proc-call", "proc-call-broker", Direction::at_most, 0.5, 0.36},
                {"p50_us", "context-call", "internal", Direction::at_most, 1.2, 1.1},
                {"p50_us", "context-actor", "internal"}};
  return calls;
}

/// Calls of 64 bytes between two hosts.
Case calls_of_two_hosts(const Nats& nats, std::size_t count) {
  const auto measure = [count](const Way& way) { return round_trips(way, 64, count); };
  Case calls{.size = 64, .unit = "B there and back, two hosts", .sides = {}, .bars = {}};
  nats.add_to(calls.sides, Between::nats, "", "one nats-server", measure);
  nats.add_to(calls.sides, Between::two_nats, "two ", "two clustered nats-servers", measure);
  calls.sides.push_back({"internal", Part::floor, "a call and its answer, brokers linked by tcp",
                         [=] { return measure({Transport::bus_calls, Between::two_brokers}); }});
  calls.sides.push_back(
      ours("proc-call-far", "Proc::call from main(), brokers linked by tcp", 64, count));
  calls.bars = {{"p50_us", "proc-call-far", "internal"},
                {"p50_us", "proc-call-far", "nats bare", Direction::at_most, 2.5, 1.8},
                {"p50_us", "proc-call-far", "two nats bare", Direction::at_most, 0.8, 0.6},
                {"p50_us", "proc-call-far", "two nats library"}};
  return calls;
}

/// Messages in one direction on one host.
Case sends_of(const Nats& nats, std::size_t size, std::size_t duration_ms) {
  const auto measure = [size, duration_ms](const Way& way) {
    return throughput(way, size, std::chrono::milliseconds(duration_ms));
  };
  Case sends{
      .size = static_cast<double>(size), .unit = "B in one direction", .sides = {}, .bars = {}};
  nats.add_to(sends.sides, Between::nats, "", "one nats-server", measure);
  sends.sides.push_back({"internal", Part::floor, "messages, packed as it comes",
                         [=] { return measure({Transport::bus, Between::broker}); }});
  sends.sides.push_back(ours("proc-send", "Proc::send from main(); the receiver's handler counts",
                             size, duration_ms));
  const std::map<std::size_t, std::pair<double, double>> bars = {{64, {1.2, 2}},
                                                                 {1024, {1.5, 3}},
                                                                 {65'536, {5, 10}},
                                                                 {1'000'000, {7, 9}},
                                                                 {1'048'576, {7, 9}}};
  Bar bar{"per_s", "proc-send", "nats bare", Direction::at_least, {}, {}};
  if (const auto found = bars.find(size); found != bars.end())
    bar.first = found->second.first, bar.aim = found->second.second;
  sends.bars = {bar, {"per_s", "proc-send", "internal", Direction::at_least, {}, {}}};
  if (size == 65'536) {
    sends.sides.push_back(ours(
        "proc-send-broker", "the same, direct.paths=false: through the broker", size, duration_ms));
    sends.bars.push_back({"per_s", "proc-send", "proc-send-broker", Direction::at_least, 2, 4});
  }
  if (size != 64) return sends;
  sends.bars.push_back({"per_s", "proc-send", "nats library", Direction::at_least, 2.5, {}});
  sends.sides.push_back(ours(
      "context-send", "Context::send of a launcher; the proc's handler counts", size, duration_ms));
  sends.bars.push_back({"per_s", "context-send", "", Direction::at_least, 1e6, 3e6});
  return sends;
}

}  // namespace

int run_public(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("public", "messages by the public libraries: Proc, Context and ActorMesh",
                        settings);
  comparison.note("internal: the bus on a reactor of its own, which no public header offers");
  comparison.note(Nats::kNote);
  const Nats nats(comparison);
  comparison.add(calls_of_one_host(nats, amounts.count));
  comparison.add(calls_of_two_hosts(nats, amounts.count));
  for (const std::size_t size : amounts.sizes)
    comparison.add(sends_of(nats, size, amounts.duration_ms));
  return comparison.run();
}

}  // namespace meshbus::bench
