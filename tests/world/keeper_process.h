#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "agent/os/lifeline.h"
#include "agent/os/packet.h"
#include "common/base/unique_fd.h"
#include "tests/support/environment.h"
#include "tests/support/process.h"

namespace meshbus::test {

/// A real meshbus-keeper with the test as its warden, which also has the agent's end of its socket.
class KeeperProcess {
 public:
  struct Options {
    std::vector<std::string> wrapper = {};    ///< What executes the keeper, if not we.
    std::vector<std::string> arguments = {};  ///< Behind those that every keeper gets.
  };
  explicit KeeperProcess(const Options& options) : KeeperProcess(options, Sockets()) {}
  KeeperProcess() : KeeperProcess(Options()) {}
  /// In order, so that what a test left to its keeper is gone.
  ~KeeperProcess() {
    lifeline.close();
    process.wait_exit(std::chrono::seconds(30));
  }
  KeeperProcess(const KeeperProcess&) = delete;
  KeeperProcess& operator=(const KeeperProcess&) = delete;

 private:
  struct Sockets {
    std::pair<UniqueFd, UniqueFd> lifeline = os::make_packet_pair().value();
    std::pair<UniqueFd, UniqueFd> agent = os::make_packet_pair().value();
  };
  KeeperProcess(const Options& options, Sockets sockets)
      : process(command(options, sockets),
                {.inherit = {sockets.lifeline.second.get(), sockets.agent.second.get()}}),
        lifeline(std::move(sockets.lifeline.first)),
        agent(std::move(sockets.agent.first)) {}

  static std::vector<std::string> command(const Options& options, const Sockets& sockets) {
    std::vector<std::string> words = options.wrapper;
    words.insert(words.end(), {bin("meshbus-keeper"), "--lifeline-fd",
                               std::to_string(sockets.lifeline.second.get()), "--agent-fd",
                               std::to_string(sockets.agent.second.get())});
    words.insert(words.end(), options.arguments.begin(), options.arguments.end());
    return words;
  }

 public:
  Process process;
  os::Lifeline lifeline;  ///< The warden's end.
  UniqueFd agent;         ///< The agent's end of its socket.
};

}  // namespace meshbus::test
