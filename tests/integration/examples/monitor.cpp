// examples/monitor.py: a ZeroMQ tool that is none of ours.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace meshbus::test;

TEST_CASE(
    "monitor: a program with nothing but ZeroMQ and the schema sees what happens in the broker of "
    "a host") {
  StandingHost host;
  const auto socket = host.ready().at("monitor").get<std::string>();
  Process tool(
      {"/usr/bin/python3", source_dir() + "/examples/monitor.py", socket, "peer.up", "counters"});
  // Its subscription has arrived when the first counters have.
  tool.wait_for_output("\"BrokerCounters\"", in_time);
  REQUIRE(run_cli({"run", "--hosts", host.address(), "--", "true"}).status ==
          ExitStatus::exited(0));
  tool.wait_for_output("\"PeerUp\"", in_time);
  for (const auto& line : lines_of(tool.out())) {
    const auto event = parse_json(line);
    if (event.at("type") != "PeerUp") continue;
    CHECK(event.at("topic") == "peer.up");
    CHECK(event.at("host") == host.address());
    CHECK(event.at("body").at("peer").get<std::string>().starts_with(host.address() + ",client-"));
    CHECK(event.at("body").at("pid").get<int>() > 0);
  }
  tool.send_signal(SIGINT);
  CHECK(tool.wait_exit(in_time) == ExitStatus::exited(130));
}
