#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/environment.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"
#include "tests/world/broker_cost.h"
#include "tests/world/hello.h"
#include "tests/world/loop.h"
#include "tests/world/peer.h"

namespace meshbus::test {

/// meshbus-broker as a process, on a unix socket and a tcp port. `before` is in front of its
/// command line.
class ServingBroker {
 public:
  explicit ServingBroker(std::vector<std::string> before = {},
                         const std::string& connections_rate = "0")
      : process_(command(std::move(before), connections_rate), with_small_quarantine()) {
    process_.wait_for_output("ready ", in_time);
    constexpr std::string_view lead = "everybody who reaches tcp:127.0.0.1:";
    process_.wait_for_output(lead, in_time);
    const std::string& said = process_.err();
    const auto at = said.find(lead) + lead.size();
    port_ = said.substr(at, said.find_first_not_of("0123456789", at) - at);
  }

  std::string unix_endpoint() const { return "ipc://" + path(); }
  std::string tcp_endpoint() const { return "tcp://127.0.0.1:" + port_; }
  std::string path() const { return dir_ / "b"; }
  std::string monitor_path() const { return dir_ / "m"; }
  const std::string& port() const { return port_; }
  HostAddr address() const { return *HostAddr::parse("unix:" + path()); }
  Process& process() { return process_; }

  std::size_t descriptors() const { return descriptors_of(process_.pid()); }
  std::uint64_t memory() const { return memory_of(process_.pid()); }

 private:
  std::vector<std::string> command(std::vector<std::string> words,
                                   const std::string& connections_rate) const {
    const std::vector<std::string> own = {bin("meshbus-broker"),
                                          "--bind",
                                          "unix:" + path(),
                                          "--bind",
                                          "tcp:127.0.0.1:0",
                                          "--insecure",
                                          "--set",
                                          "delivery.starting=200ms",
                                          "--set",
                                          "connections.rate=" + connections_rate};
    words.insert(words.end(), own.begin(), own.end());
    return words;
  }
  TempDir dir_;
  std::string port_;
  Process process_;
};

/// Two peers that mind their own business all the time.
class Bystanders {
 public:
  Bystanders(Loop& loop, const ServingBroker& broker)
      : one_(loop, broker.unix_endpoint(), launcher_hello()),
        two_(loop, broker.tcp_endpoint(), launcher_hello()) {
    one_.up();
    two_.up();
  }
  /// One call in each direction, of a size that is another one each time.
  void call() {
    ++calls_;
    const std::string body(1 + calls_ * 7919 % 60'000, static_cast<char>('a' + calls_ % 26));
    const auto start = std::chrono::steady_clock::now();
    const auto there = one_.call(two_.address(), body), back = two_.call(one_.address(), body);
    slowest_ = std::max(slowest_, std::chrono::duration_cast<std::chrono::milliseconds>(
                                      std::chrono::steady_clock::now() - start));
    REQUIRE(there.has_value());
    REQUIRE(back.has_value());
    REQUIRE((*there == "re: " + body));
    REQUIRE((*back == "re: " + body));
  }
  void check() const {
    CHECK(one_.ups == 1);
    CHECK(two_.ups == 1);
    CHECK(one_.downs + two_.downs == 0);
  }
  std::uint64_t key() const { return one_.bus->self()->key(); }
  std::uint64_t calls() const { return calls_; }
  std::chrono::milliseconds slowest() const { return slowest_; }

 private:
  TestPeer one_, two_;
  std::uint64_t calls_ = 0;
  std::chrono::milliseconds slowest_{0};
};

/// Its end is in order, and no sanitizer has anything to say.
inline void check_orderly_end(ServingBroker& broker) {
  broker.process().send_signal(SIGTERM);
  CHECK(broker.process().wait_exit(in_time) == ExitStatus::exited(0));
  INFO(broker.process().describe());
  CHECK(broker.process().err().find("Sanitizer") == std::string::npos);
}

}  // namespace meshbus::test
