// Benchmark reduce: many ranks answer one question, and their hosts reduce the answers on the way.
// Real ones are in benchmark cast.
#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "agent/host/replies/collection.h"
#include "bench/brokers.h"
#include "bench/measured.h"
#include "common/bus/bus.h"
#include "common/security/token.h"
#include "common/wire/collecting.h"
#include "meshbus/name.h"
#include "tests/bench/benches.h"
#include "wire/frame_generated.h"

namespace meshbus::bench {
namespace {

using Direction = Bar::Direction;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReduceLimit{60};
constexpr std::uint32_t kPort = 1;
/// What each rank answers.
constexpr std::string_view kAnswer = "3";

Session::Options session_of(const std::string& endpoint) {
  Session::Options session;
  session.endpoint = endpoint;
  session.hello.peer = must(Name::make("client")).to_string();
  session.hello.kind = wire::PeerKind::launcher;
  session.hello.incarnation = random_u64();
  return session;
}

/// A peer that does for ranks which do not exist what the agent of a host does for real ones: for
/// each it reads an answer as it would come from a proc, and answers with all of them reduced.
class StubHost {
 public:
  StubHost(Reactor& reactor, const std::string& endpoint) {
    Bus::Events events;
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                            Bytes body) { bus_->answer_call(envelope, header, collect(body)); };
    bus_.emplace(reactor, session_of(endpoint), Dispatcher(), std::move(events));
  }
  bool is_up() const { return bus_->is_up(); }
  const ProcId& self() const { return *bus_->self(); }

 private:
  static std::string collect(Bytes body) {
    const auto order = must(decode_collect_order(body));
    std::uint64_t ranks = 0;
    for (const auto& block : order.ranks) ranks += block.end - block.begin;
    host::Collection collection(must(Reducers::builtin().find(order.reducer)), ranks);
    const std::string answer = encode_collected_answer(order.ticket, std::string(kAnswer));
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const auto reply = must(decode_collected_answer(answer));
      collection.settle(rank, reply.answer, Clock::now());
    }
    return encode(collection.take(Clock::now()));
  }

  std::optional<Bus> bus_;
};

/// Them all, in a thread of their own.
class StubHosts {
 public:
  StubHosts(const std::string& endpoint, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      hosts_.push_back(std::make_unique<StubHost>(reactor_, endpoint));
    const auto give_up = Clock::now() + kReduceLimit;
    while (!std::ranges::all_of(hosts_, [](const auto& host) { return host->is_up(); })) {
      reactor_.turn(std::chrono::seconds(1));
      throw_if_interrupted();
      if (Clock::now() > give_up)
        throw std::runtime_error("the broker does not take all stub hosts");
    }
    for (const auto& host : hosts_) ids_.push_back(host->self());
    thread_ = std::thread([this] { reactor_.run(); });
  }
  ~StubHosts() {
    reactor_.stop();
    if (thread_.joinable()) thread_.join();
  }
  StubHosts(const StubHosts&) = delete;
  StubHosts& operator=(const StubHosts&) = delete;

  const std::vector<ProcId>& ids() const { return ids_; }

 private:
  Reactor reactor_;
  std::vector<std::unique_ptr<StubHost>> hosts_;
  std::vector<ProcId> ids_;
  std::thread thread_;
};

/// What one host has told, with its ranks where they are in the whole mesh.
Partial placed(Partial part, std::uint64_t first) {
  std::vector<Overlay<bool>::Run> runs = part.ranks.runs();
  for (auto& run : runs) run.begin += first, run.end += first;
  part.ranks = Overlay<bool>::of(std::move(runs));
  return part;
}

class Asker {
 public:
  explicit Asker(const std::string& endpoint) {
    bus_.emplace(reactor_, session_of(endpoint), Dispatcher(), Bus::Events());
    turn_until([this] { return bus_->is_up(); });
  }
  /// Asks `ranks` ranks of these hosts, and puts together what comes.
  void ask(const std::vector<ProcId>& hosts, std::uint64_t ranks) {
    Accumulator all(must(Reducers::builtin().find("sum")), ranks, Accumulator::Deliver::once);
    const auto first_of = [&](std::size_t host) { return host * ranks / hosts.size(); };
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const CollectOrder order{.ticket = random_u64(),
                               .mesh = "stubs",
                               .reducer = "sum",
                               .ranks = {{first_of(i), first_of(i + 1)}},
                               .asker = bus_->self()->to_string(),
                               .limit = kReduceLimit};
      bus_->call(Destination::to(hosts[i]), kPort, encode(order), kReduceLimit,
                 [&all, first = first_of(i)](const Result<std::string>& answer) {
                   if (!answer) throw std::runtime_error(answer.error().to_string());
                   const auto collected = must(decode_collected(*answer));
                   if (!collected.reduced)
                     throw std::runtime_error("a stub host has nothing to tell");
                   must(all.add(placed(*collected.reduced, first), Clock::now()));
                 });
    }
    reactor_.turn(std::chrono::milliseconds(0));  // they leave at its end
    turn_until([&all] { return all.is_complete(); });
    const auto sum = all.take(Clock::now());
    if (!sum || to_text(sum->value) != std::to_string(3 * ranks))
      throw std::runtime_error("the sum is wrong");
  }

 private:
  template <typename Predicate>
  void turn_until(const Predicate& predicate) {
    const auto give_up = Clock::now() + kReduceLimit;
    while (!predicate()) {
      reactor_.turn(std::chrono::seconds(1));
      throw_if_interrupted();
      if (Clock::now() > give_up) throw std::runtime_error("not all stub hosts answer");
    }
  }

  Reactor reactor_;
  std::optional<Bus> bus_;
};

Figures figures_of(std::vector<double> times, std::size_t ranks) {
  const double p50 = percentile(times, 50);
  return {{"ms", p50},
          {"p99_ms", percentile(times, 99)},
          {"ns_per_rank", p50 * 1e6 / static_cast<double>(ranks)}};
}

Figures reduced(std::size_t ranks, std::size_t hosts, std::size_t count) {
  const Brokers broker(1, BrokerLink::unix_socket);
  const StubHosts stubs(broker.endpoint(0), hosts);
  Asker asker(broker.endpoint(0));
  asker.ask(stubs.ids(), ranks);
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    asker.ask(stubs.ids(), ranks);
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return figures_of(std::move(times), ranks);
}

/// No host and no bus: as many texts are read and added up.
Figures added_up(std::size_t ranks, std::size_t count) {
  const Reducer sum = must(Reducers::builtin().find("sum"));
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = Clock::now();
    ReplyValue total = std::int64_t{0};
    for (std::size_t rank = 0; rank < ranks; ++rank)
      must(sum.combine(total, must(sum.lift(must(sum.read(kAnswer))))));
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    if (to_text(total) != std::to_string(3 * ranks)) throw std::runtime_error("the sum is wrong");
  }
  return figures_of(std::move(times), ranks);
}

}  // namespace

int run_reduce(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("reduce",
                        "N ranks that do not exist, " + std::to_string(amounts.per_host) +
                            " to a host: their hosts are asked over one broker, read an answer for "
                            "each, and reduce them; so does who asks",
                        settings);
  for (const std::size_t ranks : amounts.sizes) {
    const auto hosts = (ranks + amounts.per_host - 1) / amounts.per_host;
    const auto count = amounts.count;
    Bar limit{"ms", "reduced", ""};
    if (ranks == 100'000) limit.first = 1000, limit.aim = 300;
    comparison.add(
        {.size = static_cast<double>(ranks),
         .unit = "ranks",
         .sides = {{"sum", Part::floor, "as many answers are read and added up, and nothing else",
                    [=] { return added_up(ranks, count); }},
                   {"reduced", Part::ours,
                    "asked, reduced at " + std::to_string(hosts) + " stub hosts, and at who asks",
                    [=] { return reduced(ranks, hosts, count); }}},
         .bars = {limit, {"ms", "reduced", "sum", Direction::at_most}}});
  }
  comparison.fit("ms");
  return comparison.run();
}

}  // namespace meshbus::bench
