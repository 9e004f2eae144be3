// meshbus-bench: what the figures in the documentation were measured with. Build the release
// preset, and let nothing else run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/quantity.h"
#include "tests/bench/benches.h"
#include "tests/bench/party.h"
#include "tests/bench/traffic.h"

namespace {

using namespace meshbus::bench;

/// A benchmark as a verb.
struct Verb {
  const char* name;
  const char* about;
  Amounts amounts;
  const char* sizes;  ///< What they are of.
  const char* count;  ///< Likewise; null: it has none.
  std::function<int(const Settings&, const Amounts&)> run;
};

std::vector<Verb> all_verbs() {
  const std::vector<std::size_t> bytes = {64, 1024, 32768};
  return {
      {"rtt",
       "round trip of a message through one broker; a bare ROUTER; NATS",
       {bytes, 3000},
       "bytes of a message",
       "round trips in a round",
       [](const Settings& settings, const Amounts& amounts) {
         return run_rtt(settings, amounts, false);
       }},
      {"rtt2",
       "the same through two brokers, linked over tcp; two bare ROUTERs",
       {bytes, 3000},
       "bytes of a message",
       "round trips in a round",
       [](const Settings& settings, const Amounts& amounts) {
         return run_rtt(settings, amounts, true);
       }},
      {"rate",
       "messages per second through one broker; a bare ROUTER, with and without packing; NATS",
       {{64, 1024, 65536}},
       "bytes of a message",
       nullptr,
       run_rate},
      {"public",
       "round trips and messages per second of programs on the public libraries; the bus inside; "
       "NATS",
       {{64, 1024, 65'536, 1'048'576}, 3000},
       "bytes of a message",
       "round trips in a round",
       run_public},
      {"large",
       "bodies above 1 MiB between two procs of one host; memcpy; of two hosts; a tcp stream",
       {{64 * 1024 * 1024}, 0},
       "bytes of a body",
       nullptr,
       run_large},
      {"bus",
       "round trips, rates at 64 B, 1 KiB and 64 KiB, a link, many peers: all of the bus beside "
       "its floors and NATS",
       {{1000}, 3000},
       "peers of one broker",
       "round trips in a round",
       run_bus},
      {"link",
       "round trips and messages per second over a link of two brokers that keep what may be lost; "
       "of two that keep nothing",
       {{64, 1024, 65536}, 3000},
       "bytes of a message",
       "round trips in a round",
       run_link},
      {"peers",
       "N peers of one broker: they register, each gets a message, all are killed; a bare ROUTER",
       {{100, 1000, 10'000}, 30},
       "peers",
       "messages to each in a round",
       run_peers},
      {"flood",
       "a control message to a reader that N senders flood",
       {.sizes = {1, 4, 16}, .count = 1000, .duration_ms = 0},
       "senders",
       "control messages in a round",
       run_flood},
      {"bystander",
       "round trip of two procs beside a slow reader that N senders press on",
       {.sizes = {1, 4, 16}, .count = 3000, .duration_ms = 0},
       "senders",
       "round trips in a round",
       run_bystander},
      {"launch",
       "N times /bin/true by meshbus run; a loop of clone3; mpirun",
       {{100, 300, 1000}},
       "procs",
       nullptr,
       run_launch},
      {"crowd",
       "N sleeping procs on one host, up, listed and stopped, while others ask it",
       {{300, 1000, 3000}},
       "procs",
       nullptr,
       run_crowd},
      {"usage",
       "CPU time that a host takes to look at what N procs use; a bare loop",
       {.sizes = {100, 300, 1000}, .duration_ms = 10'000},
       "procs",
       nullptr,
       run_usage},
      {"site",
       "N sleeping procs as a site: the first view, then CPU while nothing changes, "
       "with and without top, a page and a scraper",
       {.sizes = {1000, 3000, 10'000}, .duration_ms = 10'000},
       "procs",
       nullptr,
       run_site},
      {"ready",
       "N mesh procs, to the last one's Ready; children that say hello to a bare ROUTER",
       {{100, 300, 1000}},
       "procs",
       nullptr,
       run_ready},
      {"cast",
       "one message to N mesh procs, until all have answered; children that answer a bare ROUTER",
       {{100, 300, 1000}, 50},
       "procs",
       "casts in a round",
       run_cast},
      {"reduce",
       "N ranks that do not exist answer, reduced at their hosts and at who asks; as many answers "
       "added up",
       {.sizes = {1000, 10'000, 100'000}, .count = 20, .per_host = 1000},
       "ranks",
       "questions in a round",
       run_reduce},
      {"stop",
       "N sleeping procs, stopped; a loop of kill and pidfds",
       {{100, 300, 1000}},
       "procs",
       nullptr,
       run_stop},
      {"ballast",
       "N times /bin/true from a launcher of 1 GiB; from a small one",
       {{10, 100, 300}},
       "procs",
       nullptr,
       run_ballast},
      {"notice",
       "from the SIGKILL of a proc to the launcher's handler; a pidfd in epoll",
       {{10, 100, 300}, 200},
       "procs beside those that are killed",
       "kills in a round",
       run_notice},
      {"poll",
       "statuses of N ranks, from the question to all of them in one place; structs over a bare "
       "ROUTER",
       {.sizes = {100, 1000, 10'000}, .count = 100, .per_host = 1000},
       "ranks",
       "polls in a round",
       run_poll}};
}

/// What repeats this run; where its results went does not belong to it.
std::string command_of(int argc, char** argv) {
  std::string command = "./dev bench";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json") {
      ++i;
    } else if (!word.starts_with("--json=")) {
      command += " " + word;
    }
  }
  return command;
}

/// As in `meshbus bench`: a duration has a unit. Throws CLI::ValidationError.
std::size_t to_duration_ms(const std::string& text) {
  const auto duration = meshbus::parse_duration(text, "");
  if (!duration || duration->count() < 1 || *duration > std::chrono::minutes(10))
    throw CLI::ValidationError(
        "--duration", "'" + text + "' is no duration from 1ms to 10m; it has a unit, like 500ms");
  return static_cast<std::size_t>(duration->count());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Benchmarks of meshbus, each beside its floor and its peers in the same run.",
               "meshbus-bench");
  app.require_subcommand(1);
  Settings settings;
  settings.command = command_of(argc, argv);
  int cpu = 0;
  bool is_free = false;
  std::vector<Verb> verbs = all_verbs();
  for (Verb& verb : verbs) {
    auto* added = app.add_subcommand(verb.name, verb.about);
    added->add_option("--rounds", settings.rounds, "how often each side is measured, in turns")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    added->add_option("--sizes", verb.amounts.sizes, verb.sizes)
        ->delimiter(',')
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    if (verb.count != nullptr)
      added->add_option("--count", verb.amounts.count, verb.count)
          ->check(CLI::Range(1, 100000000))
          ->capture_default_str();
    if (const std::string name = verb.name; name == "rate" || name == "bus" || name == "link" ||
                                            name == "usage" || name == "site" || name == "flood" ||
                                            name == "bystander")
      added
          ->add_option_function<std::string>(
              "--duration",
              [&amounts = verb.amounts](const std::string& text) {
                amounts.duration_ms = to_duration_ms(text);
              },
              name == "usage" || name == "site" ? "how long a host is watched, like 500ms"
              : verb.amounts.duration_ms == 0
                  ? "how long a side is measured in a round, at least, like 500ms"
                  : "how long messages flow in a round, like 500ms")
          ->default_str(std::to_string(verb.amounts.duration_ms) + "ms");
    added->add_option("--sides", settings.sides, "measure only these sides, by their names")
        ->delimiter(',');
    if (std::string(verb.name) == "rate")
      added->add_flag("--tcp", verb.amounts.is_tcp, "the ends are on tcp instead of unix sockets");
    if (std::string(verb.name) == "bus")
      added->add_flag("--curve", verb.amounts.is_curve,
                      "instead: what keys (CURVE) cost on a link of two brokers, beside what they "
                      "cost on one of two bare ROUTERs");
    if (std::string(verb.name) == "notice")
      added->add_option("--pause", verb.amounts.pause_ms, "milliseconds between two kills")
          ->check(CLI::Range(0, 10000))
          ->capture_default_str();
    if (verb.amounts.per_host != 0)
      added->add_option("--per-host", verb.amounts.per_host, "ranks on one host at most")
          ->check(CLI::Range(1, 10000))
          ->capture_default_str();
    added->add_option("--cpu", cpu, "the CPU that everything runs on")
        ->check(CLI::Range(0, 1023))
        ->capture_default_str();
    added->add_flag("--any-cpu", is_free, "let the system choose: varies by a factor of 2");
    added->add_option("--json", settings.json, "write the results to this file too");
  }
  std::string transport, address;
  std::size_t quarter = 0;
  auto* end = app.add_subcommand("end")->group("");
  end->add_option("transport", transport)->required();
  end->add_option("address", address)->required();
  end->add_option("quarter", quarter)->required();
  std::string path, forget;
  auto* broker = app.add_subcommand("broker")->group("");
  broker->add_option("path", path)->required();
  broker->add_option("forget", forget);
  std::int64_t busy_ns = 0, pause_ns = 0;
  auto* reader = app.add_subcommand("reader")->group("");
  reader->add_option("address", address)->required();
  reader->add_option("busy_ns", busy_ns)->required();
  reader->add_option("pause_ns", pause_ns)->required();
  std::string to;
  std::size_t size = 0;
  auto* sender = app.add_subcommand("sender")->group("");
  sender->add_option("address", address)->required();
  sender->add_option("to", to)->required();
  sender->add_option("size", size)->required();
  CLI11_PARSE(app, argc, argv);
  if (!is_free) settings.cpu = cpu;
  try {
    if (end->parsed()) {
      return run_other_end(transport_named(transport), address, quarter);
    }
    if (broker->parsed()) return run_broker(path, !forget.empty());
    if (reader->parsed()) {
      return run_reader(address,
                        {.busy = std::chrono::nanoseconds(busy_ns),
                         .pause = std::chrono::nanoseconds(std::max<std::int64_t>(pause_ns, 0)),
                         .is_stopped = pause_ns < 0});
    }
    if (sender->parsed()) return run_sender(address, to, size);
    for (const Verb& verb : verbs)
      if (app.got_subcommand(verb.name)) return verb.run(settings, verb.amounts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshbus-bench: %s\n", error.what());
  }
  return 70;
}
