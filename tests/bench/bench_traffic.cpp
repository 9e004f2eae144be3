// Benchmarks of messages: rtt, rtt2, rate, link, and all of the bus.
#include <string_view>

#include "bench/brokers.h"
#include "tests/bench/benches.h"
#include "tests/bench/nats.h"
#include "tests/bench/program.h"
#include "tests/bench/traffic.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;

/// Round trips at one size.
Case rtt_case(const Nats& nats, std::size_t size, std::size_t count, bool is_two,
              const char* unit) {
  const Between relay = is_two ? Between::two_relays : Between::relay,
                broker = is_two ? Between::two_brokers : Between::broker;
  const auto side = [=](const char* name, Part part, const char* what, Way way) {
    return Side{name, part, what, [=] { return round_trips(way, size, count); }};
  };
  Case one{.size = static_cast<double>(size), .unit = unit, .sides = {}, .bars = {}};
  one.sides = {
      side("relay", Part::floor, is_two ? "two bare ROUTERs, linked over tcp" : "a bare ROUTER",
           {Transport::zmq, relay}),
      side("message", Part::ours, "a message, answered by a message", {Transport::bus, broker}),
      side("call", Part::ours, "a call and its answer", {Transport::bus_calls, broker})};
  nats.add_to(one.sides, Between::nats, "", "one nats-server",
              [=](const Way& way) { return round_trips(way, size, count); });
  if (is_two)
    nats.add_to(one.sides, Between::two_nats, "two ", "two clustered nats-servers",
                [=](const Way& way) { return round_trips(way, size, count); });
  if (size == 64 && !is_two) {
    one.bars = {{"p50_us", "message", "relay", Direction::at_most, 1.10, 1.0},
                {"p99_over_p50", "message", "", Direction::at_most, 1.6, 1.4}};
  } else if (size == 64) {
    one.bars = {{"p50_us", "message", "relay", Direction::at_most, 1.2, 1.08}};
  } else {
    one.bars = {{"p50_us", "message", "relay"}};
  }
  one.bars.push_back({"p50_us", "call", "relay"});
  for (const char* peer : {"nats bare", "nats library"})
    one.bars.push_back({"p50_us", "message", peer});
  if (!is_two) return one;
  for (const char* peer : {"two nats bare", "two nats library"})
    one.bars.push_back({"p50_us", "message", peer});
  if (size != 64) return one;
  for (Bar& bar : one.bars) {
    if (bar.base == std::string_view("nats bare")) bar.first = 2.0, bar.aim = 1.5;
    if (bar.base == std::string_view("two nats bare")) bar.first = 0.7, bar.aim = 0.5;
  }
  return one;
}

constexpr const char* kRelayNote =
    "the relay neither checks nor bounds what it hands on; all ends keep at most 4 MiB or 32,768 "
    "messages on the way";

/// Messages in one direction at one size.
Case rate_case(const Nats& nats, std::size_t size, std::chrono::milliseconds duration, bool is_tcp,
               const char* unit) {
  const Between relay = is_tcp ? Between::relay_tcp : Between::relay,
                broker = is_tcp ? Between::broker_tcp : Between::broker;
  const auto side = [=](const char* name, Part part, const char* what, Way way) {
    return Side{name, part, what, [=] { return throughput(way, size, duration); }};
  };
  Case one{.size = static_cast<double>(size), .unit = unit, .sides = {}, .bars = {}};
  one.sides = {
      side("relay", Part::floor, "a bare ROUTER, one ZeroMQ message each", {Transport::zmq, relay}),
      side("relay packed", Part::floor,
           "a bare ROUTER, envelopes packed into ZeroMQ messages of 32 KiB that it never opens",
           {Transport::zmq_packed, relay}),
      side("messages", Part::ours, "messages, packed as it comes", {Transport::bus, broker}),
      side("messages flushed", Part::ours, "messages, flushed one by one",
           {Transport::bus, broker, true})};
  nats.add_to(one.sides, Between::nats, "", "one nats-server",
              [=](const Way& way) { return throughput(way, size, duration); });
  one.bars = {{"per_s", "messages", "relay", Direction::at_least},
              {"per_s", "messages", "relay packed", Direction::at_least}};
  Bar bare{"per_s", "messages", "nats bare", Direction::at_least},
      flushed{"per_s", "messages flushed", "relay", Direction::at_least};
  if (is_tcp) {
    if (size == 65536) bare.first = 1.0;
  } else if (size == 64) {
    bare.first = 1.5, bare.aim = 2.2, flushed.first = 0.95, flushed.aim = 1.05;
  } else if (size == 1024) {
    bare.first = 1.0, bare.aim = 1.25;
  } else if (size >= 65536) {
    bare.first = size == 65536 ? 2.2 : 4.0, one.bars[0].first = 0.85, one.bars[0].aim = 0.95;
  }
  one.bars.insert(one.bars.end(),
                  {flushed, bare, {"per_s", "messages", "nats library", Direction::at_least}});
  return one;
}

/// A link between two brokers with keys and without, beside the same of bare ROUTERs: the ends are
/// on unix sockets, which have none.
Case curve_case(std::size_t size, const char* unit, bool is_rate,
                const std::function<Figures(const Way&)>& measure) {
  Case one{.size = static_cast<double>(size), .unit = unit, .sides = {}, .bars = {}};
  const auto add = [&](const char* name, Part part, const char* what, Transport transport,
                       Between between) {
    one.sides.push_back({name, part, what, [=] { return measure({transport, between}); }});
  };
  const auto compare = [&](const char* side, const char* base) {
    one.bars.push_back({is_rate ? "per_s" : "p50_us", side, base,
                        is_rate ? Direction::at_least : Direction::at_most});
  };
  add("relay", Part::floor, "two bare ROUTERs, linked over tcp, one ZeroMQ message each",
      Transport::zmq, Between::two_relays);
  add("relay curve", Part::floor, "the same, with CURVE on that link", Transport::zmq,
      Between::two_relays_curve);
  if (is_rate) {
    add("packed", Part::floor, "the same without, envelopes packed into ZeroMQ messages of 32 KiB",
        Transport::zmq_packed, Between::two_relays);
    add("packed curve", Part::floor, "the same, packed, with CURVE", Transport::zmq_packed,
        Between::two_relays_curve);
  }
  add("plain", Part::ours, "two brokers, linked over tcp", Transport::bus, Between::two_brokers);
  add("curve", Part::ours, "two brokers, linked over tcp with keys", Transport::bus,
      Between::two_brokers_curve);
  compare("curve", "plain");
  compare("relay curve", "relay");
  if (is_rate) compare("packed curve", "packed");
  compare("curve", "relay curve");
  if (is_rate) compare("curve", "packed curve");
  return one;
}

int run_curve(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("bus --curve",
                        "what keys cost: a link of two brokers over tcp, with CURVE and without",
                        settings);
  comparison.note(kRelayNote);
  comparison.note(Nats::kNote);
  const std::chrono::milliseconds duration(amounts.duration_ms);
  comparison.add(curve_case(64, "B there and back", false, [count = amounts.count](const Way& way) {
    return round_trips(way, 64, count);
  }));
  for (const std::size_t size : {64U, 1024U, 65536U})
    comparison.add(curve_case(size, "B in one direction", true,
                              [=](const Way& way) { return throughput(way, size, duration); }));
  return comparison.run();
}

/// The same link with and without numbers, acknowledgements and what is kept to be sent again.
Case link_case(std::size_t size, const char* unit, const char* figure,
               const std::function<Figures(const Way&)>& measure) {
  Case one{.size = static_cast<double>(size), .unit = unit, .sides = {}, .bars = {}};
  const auto side = [&](const char* name, Part part, const char* what, Between between) {
    return Side{name, part, what, [=] { return measure({Transport::bus, between}); }};
  };
  one.sides = {side("keeps nothing", Part::floor,
                    "frames are neither numbered nor kept: what a broken connection held is lost",
                    Between::two_unkept),
               side("resumes", Part::ours,
                    "frames are numbered, kept until they are acknowledged, and sent again",
                    Between::two_kept)};
  const bool is_rate = std::string_view(figure) == "per_s";
  Bar bar{figure, "resumes", "keeps nothing", is_rate ? Direction::at_least : Direction::at_most};
  if (is_rate) bar.first = 0.92, bar.aim = 0.97;
  one.bars = {bar, {"cpu_us", "resumes", "keeps nothing"}};
  return one;
}

}  // namespace

int run_rtt(const Settings& settings, const Amounts& amounts, bool is_two) {
  Comparison comparison(is_two ? "rtt2" : "rtt",
                        std::string("round trip between two processes through ") +
                            (is_two ? "two brokers, linked over tcp" : "one broker") + ", " +
                            std::to_string(amounts.count) + " round trips a round",
                        settings);
  const Nats nats(comparison);
  for (const std::size_t size : amounts.sizes)
    comparison.add(rtt_case(nats, size, amounts.count, is_two, "B"));
  comparison.fit("p50_us");
  return comparison.run();
}

int run_rate(const Settings& settings, const Amounts& amounts) {
  Comparison comparison(
      amounts.is_tcp ? "rate --tcp" : "rate",
      std::string("messages in one direction between two processes through one broker, ") +
          (amounts.is_tcp ? "over tcp, " : "") + std::to_string(amounts.duration_ms) +
          " ms a round",
      settings);
  comparison.note(kRelayNote);
  comparison.note(Nats::kNote);
  const Nats nats(comparison);
  for (const std::size_t size : amounts.sizes)
    comparison.add(
        rate_case(nats, size, std::chrono::milliseconds(amounts.duration_ms), amounts.is_tcp, "B"));
  comparison.fit("us");
  return comparison.run();
}

int run_link(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("link",
                        "two processes over a link of two brokers by tcp: what it costs that "
                        "nothing is lost when it breaks",
                        settings);
  for (const std::size_t size : amounts.sizes) {
    comparison.add(link_case(
        size, "B there and back", "p50_us",
        [size, count = amounts.count](const Way& way) { return round_trips(way, size, count); }));
    comparison.add(link_case(size, "B in one direction", "per_s",
                             [size, duration = std::chrono::milliseconds(amounts.duration_ms)](
                                 const Way& way) { return throughput(way, size, duration); }));
  }
  return comparison.run();
}

int run_bus(const Settings& settings, const Amounts& amounts) {
  if (amounts.is_curve) return run_curve(settings, amounts);
  Comparison comparison(
      "bus", "the bus: round trips, messages in one direction, a link, many peers", settings);
  comparison.note(kRelayNote);
  comparison.note(Nats::kNote);
  const Nats nats(comparison);
  const std::chrono::milliseconds duration(amounts.duration_ms);
  comparison.add(rtt_case(nats, 64, amounts.count, false, "B there and back"));
  comparison.add(rtt_case(nats, 64, amounts.count, true, "B there and back over two brokers"));
  for (const std::size_t size : {64U, 1024U, 65536U})
    comparison.add(rate_case(nats, size, duration, false, "B in one direction"));
  for (const std::size_t crowd : amounts.sizes)
    comparison.add(peers_case(crowd, amounts.count / 30 + 1));
  return comparison.run();
}

}  // namespace meshbus::bench
