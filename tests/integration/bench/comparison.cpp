// The benchmarks still run and still tell what they are to tell; what they measure here means
// nothing.
#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Runs `meshbus-bench WORDS --json FILE` without NATS and mpirun, wherever they are installed;
/// what it wrote to FILE.
nlohmann::json results_of(std::vector<std::string> words) {
  const TempDir dir;
  words.insert(words.begin(), bin("meshbus-bench"));
  words.insert(words.end(), {"--any-cpu", "--json", dir / "results"});
  const auto finished = run(words, 120s, {.environment = {{"PATH", "/no/such/folder"}}});
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  const std::string text = read_file(dir / "results");
  CHECK(text.find(dir.path().string()) == std::string::npos);
  return nlohmann::json::parse(text);
}

/// What every one of them has.
void check_frame(const nlohmann::json& json, const std::string& name) {
  CHECK(json.at("bench") == name);
  CHECK(json.at("command").get<std::string>().starts_with("./dev bench " + name));
  CHECK(json.at("command").get<std::string>().find("json") == std::string::npos);
  CHECK(json.at("date").get<std::string>().size() == 10);
  CHECK(json.at("pinned_to_cpu").is_null());
  const auto& machine = json.at("machine");
  CHECK(machine.at("cores") > 0);
  for (const char* key : {"cpu", "kernel", "libzmq"}) CHECK(machine.at(key) != "");
  for (const auto& one : json.at("cases")) {
    for (const auto& side : one.at("sides")) {
      CAPTURE(side.dump());
      CHECK_FALSE(side.at("figures").empty());
      for (const auto& figure : side.at("figures")) {
        CHECK(figure.at("by_round").size() == json.at("rounds"));
        CHECK(figure.at("least") <= figure.at("median"));
        CHECK(figure.at("median") <= figure.at("most"));
      }
    }
  }
}

/// The ratio of a figure between two sides at the first size; without a base: the figure itself.
nlohmann::json ratio(const nlohmann::json& json, const std::string& figure, const std::string& side,
                     const std::string& base) {
  for (const auto& one : json.at("cases").at(0).at("ratios"))
    if (one.at("figure") == figure && one.at("side") == side &&
        one.at("base") == (base.empty() ? nlohmann::json() : nlohmann::json(base)))
      return one;
  FAIL("no ratio of " << figure << " of " << side << " to " << base);
  return {};
}

}  // namespace

TEST_CASE("bench: rtt puts a broker beside a bare relay, in the same rounds") {
  const auto json = results_of({"rtt", "--rounds", "2", "--sizes", "64", "--count", "30"});
  check_frame(json, "rtt");
  CHECK_FALSE(json.at("left_out").empty());
  const auto message = ratio(json, "p50_us", "message", "relay");
  CHECK(message.at("value") > 0);
  CHECK(message.at("first").at("at_most") == 1.1);
  CHECK(ratio(json, "p50_us", "call", "relay").at("value") > 0);
}

TEST_CASE("bench: two hops work for brokers and relays") {
  const auto json = results_of({"rtt2", "--rounds", "1", "--sizes", "64", "--count", "30"});
  check_frame(json, "rtt2");
  CHECK(ratio(json, "p50_us", "message", "relay").at("first").at("at_most") == 1.2);
}

TEST_CASE("bench: what keys cost on a link, of brokers and of relays") {
  const auto json =
      results_of({"bus", "--curve", "--rounds", "1", "--count", "30", "--duration", "50ms"});
  check_frame(json, "bus --curve");
  CHECK(json.at("cases").size() == 4);
  CHECK(ratio(json, "p50_us", "curve", "plain").at("value") > 0);
  CHECK(ratio(json, "p50_us", "relay curve", "relay").at("value") > 0);
}

TEST_CASE("bench: a link that resumes beside one that keeps nothing") {
  const auto json =
      results_of({"link", "--rounds", "1", "--sizes", "64", "--count", "30", "--duration", "50ms"});
  check_frame(json, "link");
  CHECK(json.at("cases").size() == 2);
  CHECK(json.at("cases").at(1).at("ratios").at(0).at("first").at("at_least") == 0.92);
}

TEST_CASE("bench: rate counts what arrives, packed and flushed") {
  const auto json = results_of({"rate", "--rounds", "1", "--sizes", "1024", "--duration", "50ms"});
  check_frame(json, "rate");
  for (const char* base : {"relay", "relay packed"})
    CHECK(ratio(json, "per_s", "messages", base).at("value") > 0);
  CHECK(ratio(json, "per_s", "messages flushed", "relay").at("value") > 0);
  const auto by_tcp =
      results_of({"rate", "--tcp", "--rounds", "1", "--sizes", "1024", "--duration", "50ms"});
  check_frame(by_tcp, "rate --tcp");
  CHECK(ratio(by_tcp, "per_s", "messages", "relay").at("value") > 0);
}

TEST_CASE("bench: a flooded reader hears control, and blocked senders sleep") {
  const auto flood = results_of({"flood", "--rounds", "1", "--sizes", "3", "--count", "30"});
  for (const char* side : {"flood", "busy reader"})
    CHECK(ratio(flood, "p50_us", side, "idle").at("value") > 0);
  // So few, and so short, that the stopped reader's queue takes what they are allowed to send: they
  // wait, and nothing comes back.
  const auto bystander = results_of(
      {"bystander", "--rounds", "1", "--sizes", "4", "--count", "200", "--duration", "1000ms"});
  for (const char* side : {"slow reader", "stopped reader"})
    CHECK(ratio(bystander, "p99_us", side, "idle").at("value") > 0);
  for (const auto& side : bystander.at("cases").at(0).at("sides")) {
    CAPTURE(side.dump());
    CHECK(side.at("figures").at("senders_cpu").at("median") < 0.5);
  }
}

TEST_CASE("bench: launch runs procs beside a loop of clone3 that is contained alike") {
  const auto json = results_of({"launch", "--rounds", "1", "--sizes", "5"});
  check_frame(json, "launch");
  CHECK_FALSE(json.at("left_out").empty());
  CHECK(ratio(json, "ms", "run", "clone3").at("value") > 0);
}

TEST_CASE("bench: notice hears of every kill") {
  const auto json = results_of({"notice", "--rounds", "1", "--sizes", "2", "--count", "3"});
  CHECK(json.at("cases").at(0).at("ratios").size() == 6);
  CHECK(ratio(json, "p50_us", "launcher", "pidfd").at("value") > 0);
  CHECK(ratio(json, "p50_us", "far launcher", "pidfd").at("value") > 0);
}

TEST_CASE("bench: poll asks one host and several, beside a bare exchange") {
  const auto json =
      results_of({"poll", "--rounds", "1", "--sizes", "2,6", "--per-host", "2", "--count", "3"});
  check_frame(json, "poll");
  const auto statuses = ratio(json, "p50_us", "statuses", "exchange");
  CHECK(statuses.at("value") > 0);
  CHECK(statuses.at("first").at("at_most") == 3);
  CHECK(ratio(json, "p50_us", "states", "exchange").at("value") > 0);
  CHECK(ratio(json, "update_ns", "merge", "").at("first").at("at_most") == 250);
  CHECK(json.at("cases").size() == 2);
}

TEST_CASE("bench: ready and stop put crowds of procs beside their floors") {
  const auto ready = results_of({"ready", "--rounds", "1", "--sizes", "3"});
  check_frame(ready, "ready");
  CHECK(ratio(ready, "ms", "spawn", "hello").at("value") > 0);
  const auto stop = results_of({"stop", "--rounds", "1", "--sizes", "3"});
  check_frame(stop, "stop");
  CHECK(ratio(stop, "ms", "stop", "kill").at("first").at("at_most") == 3);
}

TEST_CASE(
    "bench: casts reach real procs on one host and on two, beside children that answer a bare "
    "socket") {
  const auto json = results_of({"cast", "--rounds", "1", "--sizes", "4", "--count", "3"});
  check_frame(json, "cast");
  CHECK(ratio(json, "ms", "cast", "children").at("value") > 0);
}

TEST_CASE("bench: ballast launches from a large process") {
  const auto json = results_of({"ballast", "--rounds", "1", "--sizes", "3"});
  check_frame(json, "ballast");
  CHECK(ratio(json, "ms", "1 GiB", "small").at("value") > 0);
}

TEST_CASE(
    "bench: crowd asks about a small mesh and about the crowd itself, and has a bar for either") {
  const auto json = results_of({"crowd", "--rounds", "1", "--sizes", "5"});
  check_frame(json, "crowd");
  for (const char* figure : {"asked_p99_ms", "all_p99_ms"}) {
    const auto bar = ratio(json, figure, "crowd", "");
    CHECK(bar.at("value") > 0);
    CHECK(bar.at("first").at("at_most") == 50);
    CHECK(bar.at("first").at("reached").is_boolean());
  }
}

TEST_CASE("bench: usage watches a host that looks at its procs, and one that does not") {
  const auto json = results_of({"usage", "--rounds", "1", "--sizes", "3", "--duration", "200ms"});
  check_frame(json, "usage");
  for (const char* side : {"agent", "idle", "bare"}) {
    const auto& sides = json.at("cases").at(0).at("sides");
    CHECK(std::any_of(sides.begin(), sides.end(),
                      [&](const auto& one) { return one.at("name") == side; }));
  }
  CHECK(ratio(json, "cpu_permille", "agent", "").at("first").at("at_most") == 10);
}

TEST_CASE("bench: --duration has a unit, as in meshbus bench") {
  for (const char* text : {"500", "1h", "0s", "soon"}) {
    CAPTURE(text);
    const auto refused = run({bin("meshbus-bench"), "rate", "--duration", text}, 30s);
    CHECK_FALSE(refused.status == ExitStatus::exited(0));
    CHECK(refused.err.find("it has a unit, like 500ms") != std::string::npos);
  }
}
