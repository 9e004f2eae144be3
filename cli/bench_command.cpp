#include "cli/bench_command.h"

#include <CLI/CLI.hpp>

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/brokers.h"
#include "bench/casts.h"
#include "bench/child.h"
#include "bench/crowd.h"
#include "bench/end.h"
#include "bench/measured.h"
#include "bench/traffic.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "common/base/unique_fd.h"
#include "common/base/unix_peer.h"
#include "common/wire/frame.h"
#include "meshbus/actor.h"
#include "meshbus/address.h"
#include "meshbus/client.h"
#include "meshbus/proc.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  /// The last two are the processes that the others start.
  enum class Verb { rtt, throughput, fanout, cast, link, peers, end, crowd, member };
  Verb verb = Verb::rtt;
  /// Running ones; empty: brokers of its own.
  std::vector<std::string> hosts;
  std::vector<std::size_t> sizes;
  /// Round trips, or messages to all.
  std::size_t count = 0;
  std::chrono::milliseconds duration{1000};
  std::size_t peers = 0;
  bool flush = false;
  /// Of own brokers: linked by unix sockets, not by tcp.
  bool is_unix = false;
  /// Of own brokers: linked by tcp with keys.
  bool is_curve = false;
  std::optional<int> cpu;
  bool json = false;
  std::string endpoint;
  std::size_t quarter = 0;
  std::uint64_t seed = 0;
  std::size_t begin = 0;
};

using BenchVerb = BenchArguments::Verb;
using bench::CpuMeter;

/// The process that listens at a unix socket, or 0 when that cannot be told.
pid_t listener_of(const HostAddr& host) {
  if (host.transport() != Transport::unix_socket) return 0;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = host.path();
  if (!fd || path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool is_abstract = path.starts_with('@');
  if (is_abstract) address.sun_path[0] = '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return 0;
  const auto peer = unix_peer_of(fd.get());
  return peer ? peer->pid : 0;
}

/// What is measured: brokers of our own, or those of running hosts.
class Middle {
 public:
  explicit Middle(const BenchArguments& arguments) {
    const std::size_t count = arguments.verb == BenchVerb::link ? 2 : 1;
    if (arguments.hosts.empty()) {
      brokers_.emplace(count, arguments.is_unix    ? bench::BrokerLink::unix_socket
                              : arguments.is_curve ? bench::BrokerLink::tcp_with_keys
                                                   : bench::BrokerLink::tcp);
      for (std::size_t i = 0; i < count; ++i) {
        endpoints_.push_back(brokers_->endpoint(i));
        pids_.push_back(brokers_->pid(i));
      }
      return;
    }
    if (arguments.hosts.size() != count)
      throw std::runtime_error(
          count == 1 ? "--host takes one host here"
                     : "--host takes two hosts here: A,B, one for each end of the link");
    for (const std::string& word : arguments.hosts) {
      const auto host = HostAddr::parse(word);
      if (!host) throw std::runtime_error("--host " + word + ": " + host.error().detail());
      endpoints_.push_back(host->zmq_endpoint());
      pids_.push_back(listener_of(*host));
    }
  }
  const std::string& asker() const { return endpoints_.front(); }
  const std::string& other() const { return endpoints_.back(); }
  /// 0: not known.
  pid_t pid() const { return pids_.front(); }
  /// Empty when it cannot be told.
  CpuMeter cpu() const {
    if (std::find(pids_.begin(), pids_.end(), 0) != pids_.end()) return {};
    return [this] {
      std::chrono::nanoseconds sum{0};
      for (const pid_t pid : pids_) sum += bench::cpu_of(pid);
      return sum;
    };
  }

 private:
  std::optional<bench::Brokers> brokers_;
  std::vector<std::string> endpoints_;
  std::vector<pid_t> pids_;
};

/// Two ends: one here, one in a process of its own.
struct Pair {
  Pair(const Middle& middle, std::size_t quarter, bool flush)
      : other({bench::own_folder() + "meshbus", "bench", "end", middle.other(),
               std::to_string(quarter)}),
        end(bench::make_bus_end(
            {.address = middle.asker(), .other = other.read_line(), .flush_each = flush}, false)) {}
  bench::Child other;
  std::unique_ptr<bench::End> end;
};

Json number(std::optional<double> value) {
  return value ? Json(*value) : Json(nullptr);
}

/// A row has the same fields in every benchmark of messages; what it cannot tell is null.
Json row(std::size_t size, std::optional<double> p50_us, std::optional<double> p99_us,
         std::optional<double> per_s, std::optional<double> cpu_us) {
  return {{"size", size},
          {"p50_us", number(p50_us)},
          {"p99_us", number(p99_us)},
          {"msgs_per_s", number(per_s)},
          {"bytes_per_s", per_s ? Json(*per_s * static_cast<double>(size)) : Json(nullptr)},
          {"cpu_us_per_msg", number(cpu_us)}};
}

Json measure_rtt(const BenchArguments& arguments, const Middle& middle, std::size_t size) {
  const Pair pair(middle, 0, true);
  const auto figures = bench::round_trips(*pair.end, middle.cpu(), size, arguments.count);
  return row(size, figures.p50_us, figures.p99_us, figures.per_s, figures.cpu_us);
}

Json measure_throughput(const BenchArguments& arguments, const Middle& middle, std::size_t size) {
  const Pair pair(middle, bench::quarter_of(size), arguments.flush);
  const auto figures = bench::throughput(*pair.end, middle.cpu(), size, arguments.duration);
  return row(size, std::nullopt, std::nullopt, figures.per_s, figures.cpu_us);
}

/// Round trips and rate of one link: the times of the former, the rest of the latter.
Json measure_link(const BenchArguments& arguments, const Middle& middle, std::size_t size) {
  Json both = measure_throughput(arguments, middle, size);
  const Json times = measure_rtt(arguments, middle, size);
  for (const char* field : {"p50_us", "p99_us"}) both[field] = times.at(field);
  return both;
}

Json measure_fanout(const BenchArguments& arguments, const Middle& middle, std::size_t size) {
  bench::check_descriptors(arguments.peers, middle.pid());
  bench::Crowd crowd({"meshbus", "bench", "crowd"}, middle.asker(), arguments.peers);
  crowd.join();
  const auto figures = bench::fan_out(crowd, middle.asker(), middle.cpu(), size, arguments.count);
  Json one = row(size, figures.p50_us, figures.p99_us, figures.per_s, figures.cpu_us);
  one["peers"] = arguments.peers;
  return one;
}

Json measure_peers(const BenchArguments& arguments, const Middle& middle) {
  bench::check_descriptors(arguments.peers, middle.pid());
  bench::Crowd crowd({"meshbus", "bench", "crowd"}, middle.asker(), arguments.peers);
  const bool is_known = middle.pid() != 0;
  const std::size_t before = is_known ? bench::memory_of(middle.pid()) : 0;
  const auto cpu = middle.cpu();
  const auto cpu_before = cpu ? cpu() : std::chrono::nanoseconds(0);
  const std::chrono::duration<double> took = crowd.join();
  const auto peers = static_cast<double>(arguments.peers);
  Json one = {{"peers", arguments.peers},        {"processes", crowd.processes()},
              {"seconds", took.count()},         {"handshakes_per_s", peers / took.count()},
              {"cpu_us_per_handshake", nullptr}, {"broker_bytes", nullptr},
              {"bytes_per_peer", nullptr}};
  if (cpu)
    one["cpu_us_per_handshake"] =
        std::chrono::duration<double, std::micro>(cpu() - cpu_before).count() / peers;
  if (is_known) {
    const std::size_t after = bench::memory_of(middle.pid());
    one["broker_bytes"] = after;
    one["bytes_per_peer"] = static_cast<double>(after > before ? after - before : 0) / peers;
  }
  return one;
}

/// A mesh of this program, which answers with what it is sent: on a host of its own, or on running
/// ones.
class CastMesh {
 public:
  explicit CastMesh(const BenchArguments& arguments)
      : context_(bench::must(Context::create())),
        hosts_(hosts_of(context_, arguments)),
        is_own_(arguments.hosts.empty()) {
    mesh_.emplace(
        bench::must(hosts_.spawn_n("cast", arguments.peers,
                                   {.kind = ProcKind::mesh,
                                    .command = {bench::own_folder() + "meshbus", "bench", "member"},
                                    .ready_limit = std::chrono::seconds(60)},
                                   {.on_failure = [](const RankReport&) {}})));
  }
  CastMesh(const CastMesh&) = delete;
  CastMesh& operator=(const CastMesh&) = delete;
  ~CastMesh() {
    // The best that can be done; what is left ends with this process.
    static_cast<void>(mesh_->stop({.reason = "measured", .grace = std::chrono::seconds(1)}));
    if (is_own_) static_cast<void>(hosts_.shutdown(std::chrono::seconds(10)));
  }
  Json measure(const BenchArguments& arguments, std::size_t size) {
    const auto figures = bench::cast_to(context_, mesh_->ref(), size, arguments.count);
    Json one = row(size, figures.p50_us, figures.p99_us, figures.per_s, std::nullopt);
    one["peers"] = arguments.peers;
    return one;
  }

 private:
  static HostMesh hosts_of(Context& context, const BenchArguments& arguments) {
    if (arguments.hosts.empty())
      return bench::must(HostMesh::process(context, bench::must(Extent::parse("host=1"))));
    std::vector<HostAddr> hosts;
    for (const std::string& word : arguments.hosts)
      hosts.push_back(bench::must(HostAddr::parse(word)));
    return bench::must(HostMesh::attach(context, "bench", std::move(hosts)));
  }

  Context context_;
  HostMesh hosts_;
  bool is_own_;
  std::optional<ProcMesh> mesh_;
};

struct Member : Actor {
  explicit Member(std::string_view) {
    on("one", [](ActorContext&, const ActorMessage&) { return std::string("1"); });
  }
};

/// A rank of that mesh.
[[noreturn]] void be_member() {
  ProcProgram program;
  program.on(bench::kCastPort, [](Proc&, const Incoming& call) { return std::string(call.body); });
  program.actor<Member>(bench::kCastActor);
  bootstrap_or_die(program);
}

struct Column {
  const char* field;
  const char* title;
  int digits;
};

std::vector<Column> columns_of(BenchVerb verb) {
  if (verb == BenchVerb::peers)
    return {{"peers", "PEERS", 0},
            {"seconds", "SECONDS", 3},
            {"handshakes_per_s", "HANDSHAKES/S", 0},
            {"cpu_us_per_handshake", "BROKER CPU us", 1},
            {"bytes_per_peer", "BROKER BYTES/PEER", 0}};
  std::vector<Column> columns = {{"size", "SIZE", 0}};
  if (verb == BenchVerb::fanout || verb == BenchVerb::cast)
    columns.push_back({"peers", "PEERS", 0});
  if (verb != BenchVerb::throughput)
    columns.insert(columns.end(), {{"p50_us", "P50 us", 1}, {"p99_us", "P99 us", 1}});
  columns.insert(columns.end(), {{"msgs_per_s", "MESSAGES/S", 0},
                                 {"bytes_per_s", "BYTES/S", 0},
                                 {"cpu_us_per_msg", "BROKER CPU us/MESSAGE", 3}});
  return columns;
}

std::string cell(const Json& value, const Column& column) {
  if (value.is_null()) return "-";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", column.digits, value.get<double>());
  return text.data();
}

void print_row(const std::vector<Column>& columns,
               const std::function<std::string(const Column&)>& text) {
  std::string line;
  for (const Column& column : columns) {
    const std::string one = text(column);
    const std::size_t width = std::max<std::size_t>(std::strlen(column.title), 8);
    line += (line.empty() ? "" : "  ") +
            std::string(width > one.size() ? width - one.size() : 0, ' ') + one;
  }
  std::cout << line << std::endl;
}

const char* title_of(const BenchArguments& arguments) {
  switch (arguments.verb) {
    case BenchVerb::rtt:
      return "a message there and back between two processes, through one broker";
    case BenchVerb::throughput:
      return arguments.flush ? "messages in one direction, each sent on its own, through one broker"
                             : "messages in one direction, packed as they come, through one broker";
    case BenchVerb::fanout: return "one message to every peer of a broker, until all have it";
    case BenchVerb::cast: return "one message to every rank of a mesh, until all have answered";
    case BenchVerb::link:
      return "two processes, each at a broker of its own, and the link between these: round trips, "
             "then one direction";
    case BenchVerb::peers: return "idle peers that register at one broker";
    case BenchVerb::end:
    case BenchVerb::crowd:
    case BenchVerb::member: break;
  }
  return "";
}

const char* name_of(BenchVerb verb) {
  constexpr const char* names[] = {"rtt",   "throughput", "fanout", "cast",  "link",
                                   "peers", "end",        "crowd",  "member"};
  return names[static_cast<std::size_t>(verb)];
}

void keep_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    throw std::runtime_error("--cpu " + std::to_string(cpu) + ": " + std::strerror(errno));
}

int run(const BenchArguments& arguments) {
  if (arguments.cpu) keep_to_cpu(*arguments.cpu);
  bench::catch_signals();
  std::optional<Middle> middle;
  std::optional<CastMesh> mesh;
  if (arguments.verb == BenchVerb::cast) {
    mesh.emplace(arguments);
  } else {
    middle.emplace(arguments);
  }
  Json json = {{"bench", name_of(arguments.verb)}, {"what", title_of(arguments)}};
  json["hosts"] = arguments.hosts;
  json["cpu"] = arguments.cpu ? Json(*arguments.cpu) : Json(nullptr);
  json["rows"] = Json::array();
  const auto columns = columns_of(arguments.verb);
  if (!arguments.json) {
    std::cout << title_of(arguments) << "\n";
    print_row(columns, [](const Column& column) { return column.title; });
  }
  const auto add = [&](const Json& one) {
    if (!arguments.json)
      print_row(columns,
                [&one](const Column& column) { return cell(one.at(column.field), column); });
    json["rows"].push_back(one);
  };
  if (arguments.verb == BenchVerb::peers) add(measure_peers(arguments, *middle));
  for (const std::size_t size : arguments.sizes) {
    switch (arguments.verb) {
      case BenchVerb::rtt: add(measure_rtt(arguments, *middle, size)); break;
      case BenchVerb::throughput: add(measure_throughput(arguments, *middle, size)); break;
      case BenchVerb::fanout: add(measure_fanout(arguments, *middle, size)); break;
      case BenchVerb::cast: add(mesh->measure(arguments, size)); break;
      case BenchVerb::link: add(measure_link(arguments, *middle, size)); break;
      case BenchVerb::peers:
      case BenchVerb::end:
      case BenchVerb::crowd:
      case BenchVerb::member: break;
    }
  }
  if (arguments.json) std::cout << dump(json, 2) << "\n";
  return 0;
}

int measure(const BenchArguments& arguments) {
  try {
    if (arguments.verb == BenchVerb::end) {
      const auto end = bench::make_bus_end(
          {.address = arguments.endpoint, .flush_each = arguments.quarter == 0}, false);
      return bench::answer_all(*end, arguments.quarter);
    }
    if (arguments.verb == BenchVerb::crowd)
      return bench::run_crowd_process(arguments.endpoint, arguments.seed, arguments.begin,
                                      arguments.peers);
    if (arguments.verb == BenchVerb::member) be_member();
    return run(arguments);
  } catch (const bench::Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const std::exception& error) {
    complain(error.what());
    return 1;
  }
}

/// What a verb measures when nothing else is said.
struct Defaults {
  std::vector<std::size_t> sizes = {};
  std::size_t count = 0;
  std::size_t peers = 0;
};

const char* host_meaning(BenchVerb verb) {
  if (verb == BenchVerb::link) return "Two running hosts, A,B, instead of brokers of its own";
  if (verb == BenchVerb::cast)
    return "Running hosts, A,B,..., instead of one of its own; the ranks lie on them in blocks";
  return "A running host instead of a broker of its own";
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const auto end = text.find(at, begin);
    if (end != begin && begin < text.size()) parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

void add_flags(CLI::App& one, BenchArguments& arguments, const Defaults& defaults) {
  const auto verb = arguments.verb;
  add_text(
      one, "--host",
      [&arguments](const std::string& text) -> Result<void> {
        arguments.hosts = split(text, ',');
        return {};
      },
      host_meaning(verb), "ADDRESS");
  if (!defaults.sizes.empty()) {
    std::string list;
    for (const auto size : defaults.sizes) list += (list.empty() ? "" : ",") + std::to_string(size);
    one.add_option("--sizes", arguments.sizes, "Bytes of a message; default " + list)
        ->delimiter(',')
        ->check(CLI::Range(std::size_t{1}, std::size_t{kBodyLimit}))
        ->type_name("N,...");
  }
  if (defaults.count > 0) {
    const bool is_to_all = verb == BenchVerb::fanout || verb == BenchVerb::cast;
    one.add_option("--count", arguments.count,
                   (is_to_all ? "Messages to all; default " : "Round trips; default ") +
                       std::to_string(defaults.count))
        ->check(CLI::Range(1, 10'000'000))
        ->type_name("N");
  }
  if (defaults.peers > 0) {
    auto* peers = one.add_option(verb == BenchVerb::peers ? "PEERS" : "--peers", arguments.peers,
                                 "How many; default " + std::to_string(defaults.peers));
    peers->check(CLI::Range(1, 100'000));
    if (verb != BenchVerb::peers) peers->type_name("N");
  }
  if (verb == BenchVerb::throughput || verb == BenchVerb::link) {
    add_duration(one, "--duration", arguments.duration,
                 "How long messages flow for each size; default 1s");
    one.add_flag("--flush", arguments.flush,
                 "Send each message on its own, instead of packed with others");
  }
  if (verb == BenchVerb::link) {
    auto* is_unix = one.add_flag(
        "--unix", arguments.is_unix,
        "Link the two brokers by unix sockets instead of tcp on the loopback interface");
    one.add_flag("--curve", arguments.is_curve, "Link them by tcp with keys, as hosts are")
        ->excludes(is_unix);
  }
  one.add_option("--cpu", arguments.cpu, "Keep everything on this CPU")
      ->check(CLI::Range(0, 1023))
      ->type_name("N");
  one.add_flag("--json", arguments.json, "Print JSON");
}

/// The processes that the verbs start; no help mentions them.
CLI::App& add_part(CLI::App& verbs, Commands& commands, const std::string& name,
                   const std::shared_ptr<BenchArguments>& arguments) {
  auto& part = commands.add(verbs, name, {}, [arguments] { return measure(*arguments); });
  part.group("");
  return part;
}

void add_parts(CLI::App& verbs, Commands& commands) {
  const auto end = std::make_shared<BenchArguments>();
  end->verb = BenchVerb::end;
  auto& end_verb = add_part(verbs, commands, "end", end);
  end_verb.add_option("ENDPOINT", end->endpoint)->required();
  end_verb.add_option("QUARTER", end->quarter)->required();
  const auto member = std::make_shared<BenchArguments>();
  member->verb = BenchVerb::member;
  add_part(verbs, commands, "member", member);
  const auto crowd = std::make_shared<BenchArguments>();
  crowd->verb = BenchVerb::crowd;
  auto& crowd_verb = add_part(verbs, commands, "crowd", crowd);
  crowd_verb.add_option("ENDPOINT", crowd->endpoint)->required();
  crowd_verb.add_option("SEED", crowd->seed)->required();
  crowd_verb.add_option("BEGIN", crowd->begin)->required();
  crowd_verb.add_option("COUNT", crowd->peers)->required();
}

}  // namespace

void add_bench(CLI::App& app, Commands& commands) {
  const std::string details =
      "It measures a broker that it starts and ends, or with --host that of a running host. Every "
      "figure is one run on one machine: pin it with --cpu, and repeat it, before you compare. CPU "
      "is that of the broker or brokers, - where it is not known.";
  auto& verbs = commands.add_group(
      app, "bench",
      {.meaning = "Measure message times and rates on this machine; a few seconds each",
       .examples = {"bench rtt", "bench throughput --sizes 64,1024 --duration 500ms --cpu 1"},
       .details = details});
  const auto add = [&](BenchVerb verb, const std::string& meaning, const Defaults& defaults) {
    const auto arguments = std::make_shared<BenchArguments>();
    arguments->verb = verb;
    auto& one = commands.add(verbs, name_of(verb),
                             {.meaning = meaning,
                              .examples = {std::string("bench ") + name_of(verb)},
                              .details = details,
                              .exit_codes = "0; 1 it could not be measured; 128 + a signal"},
                             [arguments, defaults] {
                               auto& bench = *arguments;
                               if (bench.sizes.empty()) bench.sizes = defaults.sizes;
                               if (bench.count == 0) bench.count = defaults.count;
                               if (bench.peers == 0) bench.peers = defaults.peers;
                               return measure(bench);
                             });
    add_flags(one, *arguments, defaults);
  };
  add(BenchVerb::rtt, "A message there and back between two processes",
      {.sizes = {64, 1024, 65536}, .count = 3000});
  add(BenchVerb::throughput, "Messages in one direction between two processes",
      {.sizes = {64, 1024, 65536}});
  add(BenchVerb::fanout, "One message to many peers of a broker, until all have it",
      {.sizes = {64}, .count = 100, .peers = 200});
  add(BenchVerb::cast, "One message to every rank of a mesh of real procs, until all have answered",
      {.sizes = {64}, .count = 100, .peers = 100});
  add(BenchVerb::link, "The same as rtt and throughput between two hosts' brokers",
      {.sizes = {64, 65536}, .count = 3000});
  add(BenchVerb::peers,
      "Idle peers that register: how fast, and how much memory each takes in the broker",
      {.peers = 1000});
  add_parts(verbs, commands);
}
}  // namespace meshbus::cli
