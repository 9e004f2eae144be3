// `meshbus bench`: what it measures here means nothing, but that it does.
#include <doctest/doctest.h>

#include "tests/world/command_line.h"

using namespace meshbus::test;

namespace {

nlohmann::json figures_of(Words words) {
  words.insert(words.begin(), "bench");
  words.push_back("--json");
  const auto finished = run_cli(words);
  INFO(finished.out << finished.err);
  REQUIRE(finished.status == ExitStatus::exited(0));
  auto json = parse_json(finished.out);
  CHECK(json.at("bench") == words.at(1));
  return json;
}

/// Those that a benchmark of messages has are numbers above 0, the others null.
void check_row(const nlohmann::json& row, const Words& measured) {
  CAPTURE(row.dump());
  for (const char* field : {"p50_us", "p99_us", "msgs_per_s", "bytes_per_s", "cpu_us_per_msg"}) {
    CAPTURE(field);
    if (std::find(measured.begin(), measured.end(), field) == measured.end()) {
      CHECK(row.at(field).is_null());
    } else {
      REQUIRE(row.at(field).is_number());
      CHECK(row.at(field).get<double>() > 0);
    }
  }
}

const Words kAll = {"p50_us", "p99_us", "msgs_per_s", "bytes_per_s", "cpu_us_per_msg"};
const Words kRate = {"msgs_per_s", "bytes_per_s", "cpu_us_per_msg"};

}  // namespace

TEST_CASE("cli_bench: rtt and throughput, by size, on a broker of their own") {
  const auto rtt = figures_of({"rtt", "--sizes", "1,4096", "--count", "20"});
  REQUIRE(rtt.at("rows").size() == 2);
  for (const auto& row : rtt.at("rows")) check_row(row, kAll);
  CHECK(rtt.at("rows").at(1).at("size") == 4096);
  for (const Words& how : {Words{}, Words{"--flush"}}) {
    Words words = {"throughput", "--sizes", "1024", "--duration", "50ms"};
    words.insert(words.end(), how.begin(), how.end());
    const auto rate = figures_of(words);
    REQUIRE(rate.at("rows").size() == 1);
    check_row(rate.at("rows").at(0), kRate);
  }
}

TEST_CASE("cli_bench: fanout reaches every peer, link goes over two brokers") {
  const auto fanout =
      figures_of({"fanout", "--peers", "30", "--count", "3", "--sizes", "64,100000"});
  REQUIRE(fanout.at("rows").size() == 2);
  for (const auto& row : fanout.at("rows")) {
    check_row(row, kAll);
    CHECK(row.at("peers") == 30);
  }
  for (const Words& how : {Words{}, Words{"--unix"}}) {
    Words words = {"link", "--sizes", "64", "--count", "20", "--duration", "50ms"};
    words.insert(words.end(), how.begin(), how.end());
    check_row(figures_of(words).at("rows").at(0), kAll);
  }
}

TEST_CASE("cli_bench: a cast reaches every rank of a mesh of real procs") {
  const Words times = {"p50_us", "p99_us", "msgs_per_s", "bytes_per_s"};
  const auto cast = figures_of({"cast", "--peers", "5", "--count", "3", "--sizes", "64,100000"});
  REQUIRE(cast.at("rows").size() == 2);
  for (const auto& row : cast.at("rows")) {
    check_row(row, times);
    CHECK(row.at("peers") == 5);
  }
  StandingHost host;
  check_row(figures_of({"cast", "--host", host.address(), "--peers", "3", "--count", "3"})
                .at("rows")
                .at(0),
            times);
  // What was measured is gone, the host is not.
  const auto left = run_cli({"ps", "--hosts", host.address(), "--json"});
  INFO(left.out << left.err);
  CHECK(left.status == ExitStatus::exited(0));
  CHECK(left.out.find("\"ready\"") == std::string::npos);
}

TEST_CASE(
    "cli_bench: peers register, and their memory is told; more than there are descriptors for is "
    "an error that says so") {
  const auto row = figures_of({"peers", "50"}).at("rows").at(0);
  CHECK(row.at("peers") == 50);
  for (const char* field :
       {"handshakes_per_s", "cpu_us_per_handshake", "broker_bytes", "seconds"}) {
    CAPTURE(field);
    CHECK(row.at(field).get<double>() > 0);
  }
  // They are still there when their memory is looked at.
  CHECK(row.at("bytes_per_peer").get<double>() > 4096);
  const auto refused = run(
      {"/bin/sh", "-c", "ulimit -n 300; exec \"$0\" bench peers 1000", bin("meshbus")}, in_time);
  CHECK(refused.status == ExitStatus::exited(1));
  CHECK(refused.err.find("may have 300 (ulimit -Hn)") != std::string::npos);
}

TEST_CASE("cli_bench: a running host is measured as it is, and goes on") {
  StandingHost host;
  check_row(figures_of({"rtt", "--host", host.address(), "--sizes", "64", "--count", "20"})
                .at("rows")
                .at(0),
            kAll);
  CHECK(figures_of({"peers", "20", "--host", host.address()})
            .at("rows")
            .at(0)
            .at("bytes_per_peer")
            .is_number());
  CHECK(run_cli({"run", "--hosts", host.address(), "--", "true"}).status == ExitStatus::exited(0));
  // The table, and where there is nobody.
  const auto table = run_cli({"bench", "rtt", "--sizes", "64", "--count", "5"});
  CHECK(lines_of(table.out).size() == 3);
  CHECK(table.out.find("P50 us") != std::string::npos);
  CHECK(run_cli({"bench", "link", "--host", host.address()}).err.find("two hosts") !=
        std::string::npos);
  CHECK(run_cli({"bench", "rtt", "--host", "nonsense"}).status == ExitStatus::exited(1));
  CHECK(run_cli({"bench"}).status == ExitStatus::exited(2));
  CHECK(run_cli({"bench", "rt"}).err.find("did you mean 'rtt'?") != std::string::npos);
}
