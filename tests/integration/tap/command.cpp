// `meshbus tap` on brokers of this process and on a host.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/tap/tap_file.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/command_line.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"
#include "wire/frame_generated.h"

using namespace meshbus;
using namespace meshbus::test;

namespace {

/// A broker with a tap where `meshbus tap --host` looks for it.
struct TappedBroker {
  explicit TappedBroker(Loop& running)
      : loop(running),
        broker(start_broker(loop, "unix:" + (dir / "bus"), {}, [this](BrokerOptions& options) {
          options.tap = *HostAddr::parse("unix:" + (dir / "tap"));
        })) {}
  std::string address() const { return broker->address().to_string(); }

  TempDir dir;
  Loop& loop;
  std::unique_ptr<Broker> broker;
};

/// `meshbus WORDS...` to its end, while the brokers of this process run.
Process& finish(Loop& loop, Process& process) {
  REQUIRE(loop.until([&] { return !process.is_running(); }, in_time));
  return process;
}

/// Messages in a recording, as far as it is written.
std::size_t recorded_in(const std::string& path) {
  auto reader = cli::TapFileReader::open(path);
  REQUIRE(reader.has_value());
  std::size_t count = 0;
  for (;;) {
    const auto batch = reader->next();
    REQUIRE(batch.has_value());
    if (!*batch) return count;
    count += (*batch)->messages().size();
  }
}

void wait_tapping(Loop& loop, Process& tap) {
  REQUIRE(loop.until(
      [&] { return !tap.is_running() || tap.err().find("tapping") != std::string::npos; },
      in_time));
  REQUIRE(tap.is_running());
}

}  // namespace

TEST_CASE("cli_tap: JSON lines of exactly what was exchanged, then the end by --count") {
  Loop loop;
  TappedBroker at(loop);
  TestPeer launcher(loop, endpoint_of(*at.broker), launcher_hello());
  TestPeer proc(loop, endpoint_of(*at.broker), proc_hello(at.broker->address(), 3));
  launcher.up();
  proc.up();
  Process tap(test::cli({"tap", "--host", at.address(), "--json", "--bodies", "4", "--filter",
                         "to=trainers_* port!=9", "--count", "3"}));
  wait_tapping(loop, tap);
  for (const std::uint32_t port : {1U, 9U, 2U, 9U, 3U})
    REQUIRE(launcher.bus->send(proc.address(), port, "hello").has_value());
  CHECK(finish(loop, tap).wait_exit(in_time) == ExitStatus::exited(0));
  const auto lines = lines_of(tap.out());
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto line = parse_json(lines[i]);
    CHECK(line.at("number") == i + 1);
    CHECK(line.at("port") == i + 1);
    CHECK(line.at("size") == 5);
    CHECK(line.at("kind") == "message");
    CHECK(line.at("body") == "aGVsbA==");
    CHECK(line.at("from") == launcher.bus->self()->to_string());
    CHECK(line.at("to") == proc.bus->self()->to_string());
  }
  CHECK(tap.err().find("3 messages, 0 missed") != std::string::npos);
}

TEST_CASE(
    "cli_tap: what was recorded is sent again into another broker, and each message is accounted "
    "for") {
  Loop loop;
  TappedBroker from(loop), into(loop);
  const TempDir dir;
  std::vector<std::string> bodies;
  {
    TestPeer launcher(loop, endpoint_of(*from.broker), launcher_hello());
    TestPeer there(loop, endpoint_of(*from.broker), proc_hello(from.broker->address(), 0));
    TestPeer absent(loop, endpoint_of(*from.broker), proc_hello(from.broker->address(), 1));
    for (TestPeer* peer : {&launcher, &there, &absent}) peer->up();
    // Receivers tell what they have taken by control messages, when it is time.
    Process tap(test::cli({"tap", "--host", from.address(), "--filter", "kind!=control", "--bodies",
                           "all", "--write", dir / "record"}));
    wait_tapping(loop, tap);
    for (std::uint32_t i = 0; i < 30; ++i) {
      bodies.push_back("message " + std::to_string(i) + std::string(i * i * 100, 'x'));
      REQUIRE(launcher.bus->send(there.address(), i, bodies.back()).has_value());
    }
    REQUIRE(launcher.bus->send(absent.address(), 1, "for one who will not be there").has_value());
    REQUIRE(launcher.call(there.address(), "question").has_value());
    REQUIRE(loop.until([&] { return there.received.size() == 31; }));
    // 30 messages, 1 for the other, a call and its answer.
    REQUIRE(loop.until([&] { return recorded_in(dir / "record") == 33; }, in_time));
    tap.send_signal(SIGTERM);
    CHECK(finish(loop, tap).wait_exit(in_time) == ExitStatus::exited(128 + SIGTERM));
    CHECK(tap.out() == "");
    CHECK(tap.err().find("33 messages, 0 missed") != std::string::npos);
  }
  // What a crash may leave is left out, and said.
  std::ofstream(dir / "record", std::ios::app | std::ios::binary) << "\x10";

  TestPeer there(loop, endpoint_of(*into.broker), proc_hello(into.broker->address(), 0));
  there.up();
  Process replay(test::cli(
      {"tap", "--replay", dir / "record", "--into", into.address(), "--speed", "max", "--json"}));
  CHECK(finish(loop, replay).wait_exit(in_time) == ExitStatus::exited(0));
  INFO(replay.out() << replay.err());
  const auto told = parse_json(replay.out());
  CHECK(told.at("recorded") == 33);
  CHECK(told.at("sent") == 31);
  CHECK(told.at("returned") == 0);
  CHECK(told.at("skipped") == 2);
  CHECK(told.at("skipped_by").at("control messages and answers") == 1);
  CHECK(told.at("skipped_by").at("receivers that are not at " + into.address()) == 1);
  CHECK(told.at("calls").at("answered") == 1);
  CHECK(replay.err().find("its last 1 bytes are left out") != std::string::npos);
  REQUIRE(there.received.size() == 31);
  for (std::uint32_t i = 0; i < 30; ++i) {
    CHECK(there.received[i].first.port() == i);
    CHECK((there.received[i].second == bodies[i]));
  }
  CHECK(there.received[30].first.kind() == wire::Kind::call);
  CHECK(there.received[30].second == "question");

  Process read(test::cli({"tap", "--read", dir / "record", "--filter", "kind=call|reply"}));
  CHECK(finish(loop, read).wait_exit(in_time) == ExitStatus::exited(0));
  CHECK(lines_of(read.out()).size() == 3);
  CHECK(read.out().find("re: question") != std::string::npos);
}

TEST_CASE("cli_tap: the messages of a host as lines under their columns, until Ctrl-C") {
  StandingHost host;
  Process tap(test::cli(
      {"tap", "--host", host.address(), "--filter", "kind=control to=service", "--bodies", "all"}));
  tap.wait_for_output("tapping " + host.address(), in_time);
  REQUIRE(run_cli({"run", "--hosts", host.address(), "--", "true"}).status ==
          ExitStatus::exited(0));
  tap.wait_for_output("SpawnProcs", in_time);
  tap.send_signal(SIGINT);
  CHECK(tap.wait_exit(in_time) == ExitStatus::exited(130));
  const auto lines = lines_of(tap.out());
  CHECK(lines.at(0).starts_with("TIME (UTC)"));
  const auto column = lines[0].find("KIND");
  for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i].substr(column, 7) == "control");
}

TEST_CASE("cli_tap: a run asks each host by one message for all of its ranks") {
  StandingHost one, two;
  const std::string hosts = one.address() + "," + two.address();
  const auto tap_of = [](const StandingHost& host) {
    const Words words = {
        "tap", "--host", host.address(), "--filter", "kind=control to=service", "--bodies", "all"};
    auto tap = std::make_unique<Process>(test::cli(words));
    tap->wait_for_output("tapping " + host.address(), in_time);
    return tap;
  };
  // Messages that pass through it to the other host do not count.
  const auto orders_in = [](const Process& tap) {
    const auto lines = lines_of(tap.out());
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      std::istringstream words(line);
      std::string time, from, to;
      words >> time >> from >> to;
      return to == "service" && line.find("SpawnProcs") != std::string::npos;
    });
  };
  const auto first = tap_of(one), second = tap_of(two);
  REQUIRE(run_cli({"run", "--hosts", hosts, "-n", "400", "--", "true"}).status ==
          ExitStatus::exited(0));
  // What comes after it: whatever the first run has said is there.
  REQUIRE(run_cli({"run", "--hosts", hosts, "-n", "2", "--", "true"}).status ==
          ExitStatus::exited(0));
  for (Process* tap : {first.get(), second.get()}) {
    CHECK(wait_until([&] { return orders_in(*tap) >= 2; }, in_time));
    tap->send_signal(SIGINT);
    CHECK(tap->wait_exit(in_time) == ExitStatus::exited(130));
    INFO(tap->out());
    CHECK(orders_in(*tap) == 2);
    CHECK(tap->err().find(" 0 missed") != std::string::npos);
  }
}

TEST_CASE("cli_tap: of several hosts on this machine, the one that is known by that address") {
  const Words tcp_host = {"--insecure", "--bind", "tcp:127.0.0.1:0"};
  StandingHost first(tcp_host), second(tcp_host);
  for (const StandingHost* host : {&first, &second}) {
    Process tap(test::cli({"tap", "--host", host->address()}));
    tap.wait_for_output("tapping " + host->address(), in_time);
    tap.send_signal(SIGINT);
    CHECK(tap.wait_exit(in_time) == ExitStatus::exited(130));
  }
  const auto unclear = run_cli({"tap"});
  CHECK(unclear.status == ExitStatus::exited(1));
  for (const auto& word : {"choose one with --host", "unix:"})
    CHECK(unclear.err.find(word) != std::string::npos);
}

TEST_CASE("cli_tap: mistakes are told, and exit 2; what is not there exits 1") {
  const TempDir dir;
  const auto check = [](const Words& words, int code, const std::string& with) {
    const auto finished = run_cli(words);
    INFO(finished.err);
    CHECK(finished.status == ExitStatus::exited(code));
    CHECK(finished.err.find(with) != std::string::npos);
  };
  check({"tap", "--filter", "kind=cal"}, 2, "--filter: filter: at 5");
  check({"tap", "--bodies", "much"}, 2, "or all");
  check({"tap", "--replay", dir / "none"}, 2, "--into");
  check({"tap", "--into", "unix:/x"}, 2, "--replay");
  check({"tap", "--speed", "0", "--replay", "x", "--into", "unix:/x"}, 2, "--speed");
  check({"tap", "--write", dir / "x", "--json"}, 2, "--json");
  check({"tap", "--host", "nonsense"}, 2, "--host nonsense");
  check({"tap", "--host", "unix:" + (dir / "bus")}, 1, "no tap at " + (dir / "tap"));
  check({"tap", "--host", "tcp:192.0.2.1:7420"}, 1, "no host of yours");
  check({"tap", "--read", dir / "none"}, 1, "No such file");
  check({"tap", "--replay", dir / "none", "--into", "unix:" + (dir / "bus")}, 1, "No such file");
  std::ofstream(dir / "script") << "#!/bin/sh\necho this is something else\n";
  check({"tap", "--read", dir / "script"}, 1, "is no recording of meshbus tap");
}
