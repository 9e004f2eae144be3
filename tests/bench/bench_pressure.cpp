// Benchmarks of what presses on a broker and whom it hurts: flood, bystander.
#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bench/child.h"
#include "bench/measured.h"
#include "bench/traffic.h"
#include "common/base/block_pool.h"
#include "common/config/config.h"
#include "common/wire/frame.h"
#include "tests/bench/benches.h"
#include "tests/bench/party.h"
#include "tests/bench/traffic.h"

namespace meshbus::bench {

namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::size_t kMessage = 64;
/// So long the senders press before anything is measured.
constexpr std::chrono::milliseconds kSettle{300};

/// A broker, a reader and its senders, each in a process of its own.
class Pressure {
 public:
  Pressure(std::size_t senders, const Taking& taking)
      : middle_(Between::broker),
        idle_kib_(middle_.resident_kib()),
        is_stopped_(taking.is_stopped) {
    const std::string program = own_folder() + "meshbus-bench";
    const auto pause = taking.is_stopped ? -1 : taking.pause.count();
    reader_.emplace(std::vector<std::string>{program, "reader", middle_.asker_address(),
                                             std::to_string(taking.busy.count()),
                                             std::to_string(pause)});
    name_ = reader_->read_line();
    for (std::size_t i = 0; i < senders; ++i)
      senders_
          .emplace_back(std::make_unique<Child>(std::vector<std::string>{
              program, "sender", middle_.asker_address(), name_, std::to_string(kMessage)}))
          ->read_line();
  }
  const Middle& middle() const noexcept { return middle_; }
  const std::string& reader() const noexcept { return name_; }
  /// What the broker has grown by, and what its senders and its reader may have in it: a window
  /// each, and the blocks that are kept for the next messages. When the reader has stopped, its
  /// queue as well, as long as it may be; the windows are then on their way back.
  double grown_kib() const {
    return static_cast<double>(middle_.resident_kib()) - static_cast<double>(idle_kib_);
  }
  double computed_kib() const {
    const std::size_t queue = is_stopped_ ? Config().bytes(keys::queue_bytes) : 0;
    return static_cast<double>(queue + (senders_.size() + 1) * kWindow + BlockPool::kKept) / 1024;
  }
  /// Throws when one of them presses no more.
  void check() const {
    for (const auto& one : senders_)
      if (one->has_ended()) throw std::runtime_error("a sender has ended before the measurement");
  }
  std::chrono::nanoseconds senders_cpu() const {
    std::chrono::nanoseconds sum{0};
    for (const auto& one : senders_) sum += one->cpu();
    return sum;
  }

 private:
  Middle middle_;
  std::size_t idle_kib_;
  bool is_stopped_;
  std::optional<Child> reader_;
  std::string name_;
  std::vector<std::unique_ptr<Child>> senders_;
};

Figures ask_under_flood(std::size_t senders, const Taking& taking, const Amounts& amounts) {
  Pressure pressure(senders, taking);
  Party asker(pressure.middle().asker_address());
  const auto reader = Destination::to(must(ProcId::parse(pressure.reader())));
  for (const auto end = Clock::now() + kSettle; Clock::now() < end;) ask(asker, reader);
  std::vector<double> times;
  for (const auto end = Clock::now() + std::chrono::milliseconds(amounts.duration_ms);
       times.size() < amounts.count || Clock::now() < end;)
    times.push_back(Microseconds(ask(asker, reader)).count());
  pressure.check();
  const double p50 = percentile(times, 50), p99 = percentile(times, 99);
  return {{"p50_us", p50},
          {"p99_us", p99},
          {"most_us", times.back()},
          {"grown_kib", pressure.grown_kib()}};
}

Figures pair_beside(std::size_t senders, const Taking& taking, const Amounts& amounts) {
  Pressure pressure(senders, taking);
  const std::string& address = pressure.middle().asker_address();
  Child echo({own_folder() + "meshbus-bench", "end", "bus", address, "0"});
  const auto end =
      make_end(Transport::bus, {.address = address, .other = echo.read_line(), .flush_each = true});
  round_trips(*end, {}, kMessage, 2000);
  const auto cpu = pressure.senders_cpu();
  const auto begin = Clock::now();
  const auto trips = round_trips(*end, {}, kMessage, amounts.count,
                                 std::chrono::milliseconds(amounts.duration_ms));
  const Microseconds took = Clock::now() - begin, used = pressure.senders_cpu() - cpu;
  pressure.check();
  Figures figures = {{"p50_us", trips.p50_us},
                     {"p99_us", trips.p99_us},
                     {"p99_over_p50", trips.p99_us / trips.p50_us}};
  figures["senders_cpu"] = used / took;
  figures["grown_kib"] = std::max(pressure.grown_kib(), 0.0);
  figures["grown_over_computed"] = figures["grown_kib"] / pressure.computed_kib();
  return figures;
}

std::string a_round(const Amounts& amounts) {
  std::string text = std::to_string(amounts.count) + " a round";
  if (amounts.duration_ms != 0)
    text += ", and as many more as there are in " + std::to_string(amounts.duration_ms) + " ms";
  return text;
}

}  // namespace

int run_flood(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("flood",
                        "a control message to a reader and its answer, while others flood that "
                        "reader with messages of 64 B; " +
                            a_round(amounts),
                        settings);
  for (const std::size_t senders : amounts.sizes) {
    const auto side = [&](const char* name, Part part, const char* what, std::size_t how_many,
                          Taking taking) {
      return Side{name, part, what,
                  [=, &amounts] { return ask_under_flood(how_many, taking, amounts); }};
    };
    Case one{.size = static_cast<double>(senders), .unit = "senders", .sides = {}, .bars = {}};
    one.sides = {side("idle", Part::floor, "nobody sends", 0, {}),
                 side("flood", Part::ours, "the reader takes what comes", senders, {}),
                 side("busy reader", Part::ours, "the reader needs 5 us for each message", senders,
                      {.busy = std::chrono::microseconds(5)})};
    for (const char* name : {"flood", "busy reader"}) {
      one.bars.push_back({"p50_us", name, "idle"});
      Bar bar{"p99_us", name, "", Direction::at_most};
      if (senders == 16)
        bar.first = 5000, bar.aim = std::string_view(name) == "flood" ? 2000 : 2500;
      one.bars.push_back(std::move(bar));
    }
    comparison.add(std::move(one));
  }
  comparison.fit("p99_us");
  return comparison.run();
}

int run_bystander(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("bystander",
                        "round trip of 64 B between two procs, while others send to a slow reader "
                        "at the same broker; " +
                            a_round(amounts),
                        settings);
  comparison.note(
      "computed: a window of 512 KiB for each sender and for the reader, and 2.25 MiB of blocks "
      "for the next; for a stopped reader "
      "queue.bytes as well");
  for (const std::size_t senders : amounts.sizes) {
    const auto side = [&](const char* name, Part part, const char* what, std::size_t how_many,
                          Taking taking) {
      return Side{name, part, what,
                  [=, &amounts] { return pair_beside(how_many, taking, amounts); }};
    };
    Case one{.size = static_cast<double>(senders), .unit = "senders", .sides = {}, .bars = {}};
    one.sides = {
        side("idle", Part::floor, "nobody sends", 0, {}),
        side("slow reader", Part::ours, "it takes a message each ms", senders,
             {.pause = std::chrono::milliseconds(1)}),
        side("stopped reader", Part::ours, "it takes none", senders, {.is_stopped = true})};
    for (const char* name : {"slow reader", "stopped reader"}) {
      one.bars.push_back({"p50_us", name, "idle"});
      one.bars.push_back({"p99_us", name, "idle", Direction::at_most, 2.5, 1.5});
      one.bars.push_back({"grown_over_computed", name, "", Direction::at_most, 1.2});
    }
    comparison.add(std::move(one));
  }
  comparison.fit("p99_us");
  return comparison.run();
}

}  // namespace meshbus::bench
