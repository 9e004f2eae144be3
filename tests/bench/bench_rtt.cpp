#include "tests/bench/bench_rtt.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "common/bus.h"
#include "common/reactor.h"
#include "common/token.h"
#include "meshbus/name.h"
#include "tests/bench/child.h"

namespace meshbus::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWarmUp = 500;
constexpr std::chrono::seconds kLimit{20};

/// A folder for sockets, removed at the end.
struct SocketFolder {
  SocketFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meshbus-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
    path = pattern;
  }
  ~SocketFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// Half of a pair of peers on a broker, on this thread.
class BusEnd {
 public:
  explicit BusEnd(const std::string& endpoint) {
    Session::Options options;
    options.endpoint = endpoint;
    options.hello.version = 1;
    const auto name = Name::make("client");
    if (!name) throw std::runtime_error(name.error().to_string());
    options.hello.peer = name->to_string();
    options.hello.kind = wire::PeerKind::launcher;
    options.hello.incarnation = random_u64();
    Bus::Events events;
    events.on_refused = [](const Error& error) { throw std::runtime_error(error.to_string()); };
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body) {
      on_data(envelope, header, body);
    };
    bus.emplace(reactor, context, std::move(options), Dispatcher(), std::move(events));
    turn_until([&] { return bus->is_up(); });
  }
  template <typename Predicate>
  void turn_until(Predicate predicate, std::size_t round_trips = 0) {
    const auto end = Clock::now() + kLimit + round_trips * std::chrono::milliseconds(1);
    while (!predicate()) {
      reactor.turn(std::chrono::seconds(1));
      if (Clock::now() > end) throw std::runtime_error("no answer from the broker");
    }
  }

  Reactor reactor;
  zmq::context_t context{1};
  std::function<void(const wire::Envelope&, const wire::CallHeader&, Bytes)> on_data = [](const auto&, const auto&, Bytes) {};
  std::optional<Bus> bus;
};

/// What one round measured.
struct Round {
  double p50_us = 0;
  double p99_us = 0;
  /// CPU time of the process in the middle, for each message that it passed on.
  double cpu_us = 0;
};

/// Collects the times of one round, the warm-up left out.
class Stopwatch {
 public:
  Stopwatch(const RttOptions& options, const Child& middle) : count_(options.count), middle_(middle) { times_.reserve(count_); }
  void start() { begin_ = Clock::now(); }
  /// A round trip that began at the last start() or stop() is over. False when there are enough.
  bool stop() {
    const auto now = Clock::now();
    if (warm_up_ > 0) {
      if (--warm_up_ == 0) cpu_ = middle_.cpu();
    } else {
      times_.push_back(std::chrono::duration<double, std::micro>(now - begin_).count());
    }
    begin_ = Clock::now();
    return times_.size() < count_;
  }
  Round result() {
    const std::chrono::duration<double, std::micro> used = middle_.cpu() - cpu_;
    std::sort(times_.begin(), times_.end());
    return {.p50_us = times_[times_.size() / 2],
            .p99_us = times_[times_.size() * 99 / 100],
            .cpu_us = used.count() / static_cast<double>(2 * times_.size())};
  }

 private:
  std::size_t count_;
  const Child& middle_;
  std::size_t warm_up_ = kWarmUp;
  std::vector<double> times_;
  std::chrono::nanoseconds cpu_{};
  Clock::time_point begin_;
};

Round measure_floor(const RttOptions& options, const std::string& endpoint) {
  Child relay({own_folder() + "meshbus-floor-relay", endpoint});
  relay.read_line();
  Child echo({own_folder() + "meshbus-bench", "floor-echo", endpoint});
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvtimeo, static_cast<int>(std::chrono::milliseconds(kLimit).count()));
  socket.connect(endpoint);
  echo.read_line();
  const std::string body(options.size, 'x');
  Stopwatch watch(options, relay);
  watch.start();
  do {
    socket.send(zmq::buffer(body), zmq::send_flags::none);
    zmq::message_t answer;
    if (!socket.recv(answer)) throw std::runtime_error("no answer through the relay");
  } while (watch.stop());
  return watch.result();
}

enum class Ask { message, call };

Round measure_broker(const RttOptions& options, const std::string& path, Ask ask) {
  Child broker({own_folder() + "meshbus-broker", "--bind", "unix:" + path});
  broker.read_line();
  Child echo({own_folder() + "meshbus-bench", "bus-echo", "ipc://" + path});
  const auto other = ProcId::parse(echo.read_line());
  if (!other) throw std::runtime_error(other.error().to_string());
  BusEnd end("ipc://" + path);
  const Destination to = Destination::to(*other);
  const std::string body(options.size, 'x');
  Stopwatch watch(options, broker);
  bool is_done = false;
  // From answer to next question inside the handlers, as programs do it: what a handler says leaves at the end of its turn.
  std::function<void()> next;
  const auto on_answer = [&] {
    if (watch.stop()) {
      next();
    } else {
      is_done = true;
    }
  };
  next = [&] {
    if (ask == Ask::message) {
      if (auto sent = end.bus->send(to, 1, body); !sent) throw std::runtime_error(sent.error().to_string());
      return;
    }
    end.bus->call(to, 1, body, kLimit, [&](const Result<std::string>& answer) {
      if (!answer) throw std::runtime_error(answer.error().to_string());
      on_answer();
    });
  };
  end.on_data = [&](const auto&, const auto&, Bytes) { on_answer(); };
  watch.start();
  end.reactor.post(next);
  end.turn_until([&] { return is_done; }, options.count);
  return watch.result();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One way to go, over all rounds.
struct Series {
  const char* name;
  std::vector<Round> rounds = {};

  std::vector<double> all(double Round::* what) const {
    std::vector<double> values;
    for (const Round& one : rounds) values.push_back(one.*what);
    return values;
  }
  double median_of(double Round::* what) const { return median(all(what)); }
};

void print_round(int number, const Series& series) {
  const Round& round = series.rounds.back();
  std::printf("  round %d  %-8s p50 %7.1f us  p99 %7.1f us  middle %5.2f us CPU/message\n", number, series.name, round.p50_us, round.p99_us,
              round.cpu_us);
  std::fflush(stdout);
}

/// Ratios round by round: both sides of each were measured under the same conditions.
nlohmann::json compare(const Series& ours, const Series& floor) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.rounds.size(); ++i) ratios.push_back(ours.rounds[i].p50_us / floor.rounds[i].p50_us);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  const double ratio = ours.median_of(&Round::p50_us) / floor.median_of(&Round::p50_us);
  std::printf("  %-8s p50 %7.1f us = %.2f x floor (%.2f to %.2f by round)  p99/p50 %.2f  broker %5.2f us CPU/message (floor %.2f)\n",
              ours.name, ours.median_of(&Round::p50_us), ratio, *least, *most,
              ours.median_of(&Round::p99_us) / ours.median_of(&Round::p50_us), ours.median_of(&Round::cpu_us),
              floor.median_of(&Round::cpu_us));
  return {{"ratio_p50", ratio}, {"ratio_least", *least}, {"ratio_most", *most}};
}

nlohmann::json to_json(const Series& series) {
  return {{"p50_us", series.median_of(&Round::p50_us)},
          {"p99_us", series.median_of(&Round::p99_us)},
          {"cpu_us_per_message", series.median_of(&Round::cpu_us)},
          {"p50_us_by_round", series.all(&Round::p50_us)},
          {"p99_us_by_round", series.all(&Round::p99_us)}};
}

}  // namespace

int run_rtt(const RttOptions& options) {
  pin_to_cpu(options.cpu);
  Series floor{"floor"}, message{"message"}, call{"call"};
  std::printf("rtt: %zu bytes, %zu round trips a round, %d rounds, everything on CPU %d, unix sockets\n", options.size, options.count,
              options.rounds, options.cpu);
#if !defined(NDEBUG)
  std::printf("  this is a build with assertions: compare nothing with these figures (use the release preset)\n");
#endif
  for (int round = 1; round <= options.rounds; ++round) {
    // New processes and sockets for each: what is random about them is part of the spread.
    const SocketFolder folder;
    floor.rounds.push_back(measure_floor(options, "ipc://" + folder.path + "/relay"));
    print_round(round, floor);
    message.rounds.push_back(measure_broker(options, folder.path + "/broker", Ask::message));
    print_round(round, message);
    call.rounds.push_back(measure_broker(options, folder.path + "/broker2", Ask::call));
    print_round(round, call);
  }
  std::printf("medians\n  %-8s p50 %7.1f us  p99/p50 %.2f\n", floor.name, floor.median_of(&Round::p50_us),
              floor.median_of(&Round::p99_us) / floor.median_of(&Round::p50_us));
  nlohmann::json result = {{"bench", "rtt"}, {"size", options.size}, {"count", options.count}, {"rounds", options.rounds}};
  result["floor"] = to_json(floor);
  for (const Series* series : {&message, &call}) {
    result[series->name] = to_json(*series);
    result[series->name].update(compare(*series, floor));
  }
  if (!options.json.empty()) {
    std::ofstream out(options.json);
    out << result.dump(2) << '\n';
    if (!out.flush()) throw std::runtime_error("cannot write " + options.json);
  }
  return 0;
}

int run_floor_echo(const std::string& endpoint) {
  zmq::context_t context(1);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  // The relay learns of this side by a message, and answers the first one of the other side when it has.
  socket.send(zmq::str_buffer("here"), zmq::send_flags::none);
  std::printf("ready\n");
  std::fflush(stdout);
  zmq::message_t message;
  while (socket.recv(message)) socket.send(message, zmq::send_flags::none);
  return 0;
}

int run_bus_echo(const std::string& endpoint) {
  BusEnd end(endpoint);
  end.on_data = [&](const wire::Envelope& envelope, const wire::CallHeader& header, Bytes body) {
    if (envelope.kind() == wire::Kind::call) {
      end.bus->answer_call(envelope, header, body);
    } else {
      (void)end.bus->send(Destination::back(envelope), 1, body);
    }
  };
  std::printf("%s\n", end.bus->self()->to_string().c_str());
  std::fflush(stdout);
  end.reactor.watch(0, EPOLLIN, [&](std::uint32_t) { end.reactor.stop(); });
  end.reactor.run();
  return 0;
}

}  // namespace meshbus::bench
