// Benchmark public: what programs get that are written with the public libraries
// (tests/bench/public), beside the bus inside and NATS.
#include <sstream>

#include "bench/child.h"
#include "tests/bench/benches.h"
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

}  // namespace

int run_public(const Settings& settings, const Amounts& amounts) {
  Comparison comparison(
      "public", "messages by the public libraries: Proc and Context, through one broker", settings);
  comparison.note("internal: the bus on a reactor of its own, which no public header offers");
  const bool has_nats = find_in_path("nats-server").has_value();
  if (!has_nats)
    comparison.leave_out("nats bare", "nats-server is not installed (package nats-server)");
  const std::size_t count = amounts.count;
  Case calls{.size = 64, .unit = "B there and back", .sides = {}, .bars = {}};
  if (has_nats)
    calls.sides.push_back({"nats bare", Part::peer, "one nats-server, bare sockets", [=] {
                             return round_trips({Transport::nats, Between::nats}, 64, count);
                           }});
  calls.sides.push_back({"internal", Part::floor, "a call and its answer", [=] {
                           return round_trips({Transport::bus_calls, Between::broker}, 64, count);
                         }});
  calls.sides.push_back(ours("proc-call", "Proc::call from main()", 64, count));
  calls.sides.push_back(ours("context-call", "Context::call of a launcher", 64, count));
  calls.bars = {{"p50_us", "proc-call", "internal", Direction::at_most, 1.1, {}},
                {"p50_us", "proc-call", "nats bare", Direction::at_most, 0.95, {}},
                {"p50_us", "context-call", "internal", Direction::at_most, 1.2, 1.1}};
  comparison.add(std::move(calls));
  const std::map<std::size_t, std::pair<double, double>> bars = {
      {64, {1.2, 2}}, {1024, {1.5, 3}}, {65'536, {5, 10}}, {1'048'576, {7, 9}}};
  for (const std::size_t size : amounts.sizes) {
    const std::chrono::milliseconds duration(amounts.duration_ms);
    Case sends{
        .size = static_cast<double>(size), .unit = "B in one direction", .sides = {}, .bars = {}};
    if (has_nats)
      sends.sides.push_back(
          {"nats bare", Part::peer, "one nats-server, bare sockets, written 64 KiB at once",
           [=] { return throughput({Transport::nats, Between::nats}, size, duration); }});
    sends.sides.push_back({"internal", Part::floor, "messages, packed as it comes", [=] {
                             return throughput({Transport::bus, Between::broker}, size, duration);
                           }});
    sends.sides.push_back(ours("proc-send", "Proc::send from main(); the receiver's handler counts",
                               size, amounts.duration_ms));
    Bar bar{"per_s", "proc-send", "nats bare", Direction::at_least, {}, {}};
    if (const auto found = bars.find(size); found != bars.end())
      bar.first = found->second.first, bar.aim = found->second.second;
    sends.bars = {bar, {"per_s", "proc-send", "internal", Direction::at_least, {}, {}}};
    if (size == 64) {
      sends.sides.push_back(ours("context-send",
                                 "Context::send of a launcher; the proc's handler counts", size,
                                 amounts.duration_ms));
      sends.bars.push_back({"per_s", "context-send", "", Direction::at_least, 1e6, 3e6});
    }
    comparison.add(std::move(sends));
  }
  return comparison.run();
}

}  // namespace meshbus::bench
