// meshbus-bench: what the figures in the documentation were measured with. Build the release preset, and let nothing else run.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "tests/bench/bench_rtt.h"

int main(int argc, char** argv) {
  using namespace meshbus::bench;
  CLI::App app("Benchmarks of meshbus, each beside its floor in the same run.", "meshbus-bench");
  app.require_subcommand(1);
  RttOptions rtt;
  auto* rtt_verb = app.add_subcommand("rtt", "round trip of a small message through one broker, and through a bare ROUTER relay");
  rtt_verb->add_option("--rounds", rtt.rounds, "how often each is measured, in turns")->check(CLI::Range(1, 1000))->capture_default_str();
  rtt_verb->add_option("--count", rtt.count, "round trips in a round")->check(CLI::Range(1, 100000000))->capture_default_str();
  rtt_verb->add_option("--size", rtt.size, "bytes of the message")->check(CLI::Range(0, 1000000))->capture_default_str();
  rtt_verb->add_option("--cpu", rtt.cpu, "the CPU that everything runs on")->check(CLI::Range(0, 1023))->capture_default_str();
  rtt_verb->add_option("--json", rtt.json, "write the results to this file too");
  std::string endpoint;
  auto* floor_echo = app.add_subcommand("floor-echo")->group("");
  floor_echo->add_option("endpoint", endpoint)->required();
  auto* bus_echo = app.add_subcommand("bus-echo")->group("");
  bus_echo->add_option("endpoint", endpoint)->required();
  CLI11_PARSE(app, argc, argv);
  try {
    if (floor_echo->parsed()) return run_floor_echo(endpoint);
    if (bus_echo->parsed()) return run_bus_echo(endpoint);
    return run_rtt(rtt);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "meshbus-bench: %s\n", error.what());
    return 70;
  }
}
