#include "cli/bench/bench_command.h"

#include <CLI/CLI.hpp>

#include <sched.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/child.h"
#include "bench/crowd.h"
#include "bench/end.h"
#include "bench/measured.h"
#include "bench/traffic.h"
#include "cli/bench/bench_arguments.h"
#include "cli/bench/bench_middle.h"
#include "cli/bench/bench_rows.h"
#include "cli/bench/bench_table.h"
#include "cli/bench/cast_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/text_error.h"
#include "common/wire/frame.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

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
  std::optional<BenchMiddle> middle;
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
  const BenchTable table(arguments.verb);
  if (!arguments.json) {
    std::cout << title_of(arguments) << "\n";
    table.print_head();
  }
  const auto add = [&](const Json& one) {
    if (!arguments.json) table.print(one);
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
    if (arguments.verb == BenchVerb::member) CastMesh::be_member();
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
