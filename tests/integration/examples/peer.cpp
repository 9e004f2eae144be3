// examples/peer.py: a client in another language, made by docs/reference/protocol.md.
#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <string>

#include "tests/support/golden.h"
#include "tests/world/command_line.h"

using namespace meshbus::test;

TEST_CASE(
    "protocol: a client with nothing but ZeroMQ and the schemas lists what runs on a host, and "
    "calls a proc there") {
  StandingHost host;
  Process job({bin("meshbus"), "run", "--mesh", "--no-prefix", "--hosts", host.address(), "-n", "2",
               "--", bin("echo_proc")});
  const auto peer = [&](const Words& more) {
    Words words{"/usr/bin/python3", source_dir() + "/examples/peer.py", host.address()};
    words.insert(words.end(), more.begin(), more.end());
    auto process = std::make_unique<Process>(words);
    process->wait_exit(in_time);
    return process;
  };
  std::string name;
  REQUIRE(wait_until(
      [&] {
        const auto list = lines_of(peer({})->out());
        if (list.size() != 2) return false;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          const auto line = parse_json(list[rank]);
          if (line.at("state") != "ready") return false;
          CHECK(line.at("rank") == rank);
          CHECK(line.at("pid").get<int>() > 0);
          name = line.at("mesh").get<std::string>();
        }
        return true;
      },
      in_time));
  const auto dash = name.rfind('-');
  const std::string second = name.substr(0, dash) + "_1" + name.substr(dash);

  CHECK(peer({"call", second, "1", "good day"})->out() == "good day\n");
  const std::string large(100'000, 'x');  // is detached
  CHECK(peer({"call", second, "1", large})->out() == large + "\n");

  const auto wrong_port = peer({"call", second, "77", ""});
  CHECK(wrong_port->wait_exit(in_time) == ExitStatus::exited(1));
  CHECK(wrong_port->err().find("has no handler for port 77") != std::string::npos);

  job.send_signal(SIGINT);
  CHECK(job.wait_exit(in_time) == ExitStatus::exited(130));
}
