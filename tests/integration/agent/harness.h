#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/host/host_agent.h"
#include "broker/broker.h"
#include "common/bus/bus.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/keeper_process.h"
#include "tests/world/launcher.h"
#include "tests/world/loop.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

namespace meshbus::test {

/// A host agent in the test's own process and thread, with a real broker beside it and a real
/// meshbus-keeper below it. Everything runs inside of the wait functions.
class AgentHarness {
 public:
  struct Options {
    std::vector<Setting> settings = {};
    host::Environment environment = {"PATH=/usr/bin:/bin"};
    /// Gets our end of the keeper's socket and returns what the agent gets in its place, for tests
    /// that stand between the two. Empty: the agent gets the keeper's socket.
    std::function<UniqueFd(Reactor&, UniqueFd)> between = {};
  };
  explicit AgentHarness(Options options);
  AgentHarness() : AgentHarness(Options()) {}
  ~AgentHarness();

  /// Runs everything until the predicate holds; throws at the deadline.
  void wait(const std::string& what, const std::function<bool()>& predicate,
            std::chrono::milliseconds deadline = std::chrono::seconds(40));
  /// Runs everything for so long: to see that something does not happen.
  void run_for(std::chrono::milliseconds time);

  /// Asks the agent and waits for the answer.
  template <typename Answer, typename Body>
  Result<typename Answer::NativeTableType> ask(TestLauncher& from, Body body) {
    const auto answer =
        std::make_shared<std::optional<Result<ControlMessage>>>();  // may come after we gave up
    from.bus().request(Destination::to_agent(host()), std::move(body), std::chrono::seconds(30),
                       [answer](Result<ControlMessage> got) { *answer = std::move(got); });
    wait("an answer", [&] { return answer->has_value(); });
    if (!**answer) return fail((**answer).error());
    const auto* table = (**answer)->template body_as<Answer>();
    if (table == nullptr)
      return fail(ErrorCode::malformed_message, "another answer: " + (**answer)->body_name());
    typename Answer::NativeTableType native;
    table->UnPackTo(&native);
    return native;
  }
  template <typename Answer, typename Body>
  Result<typename Answer::NativeTableType> ask(Body body) {
    return ask<Answer>(*launcher, std::move(body));
  }

  /// `count` ranks of a new mesh that run `sh -c SCRIPT`.
  wire::SpawnProcsT shell(const std::string& script, std::uint64_t count = 1);
  wire::SpawnProcsT command(std::vector<std::string> argv, std::uint64_t count = 1);
  /// Spawns it for the launcher; returns the name of the mesh.
  std::string spawn(wire::SpawnProcsT request);
  std::string run_shell(const std::string& script, std::uint64_t count = 1) {
    return spawn(shell(script, count));
  }
  /// The same for a script that says "up" when it has come so far; waits for that.
  std::string run_until_up(const std::string& script, std::uint64_t count = 1);
  void stop(const std::string& mesh, std::chrono::milliseconds grace,
            std::vector<wire::RankInterval> ranks = {});
  /// Until every rank of the mesh has that state or a later one.
  void wait_state(const std::string& mesh, wire::ProcState state, std::size_t ranks = 1);
  /// Until every rank has ended and has its exit report.
  void wait_ended(const std::string& mesh, std::size_t ranks = 1);
  TestLauncher::Rank& rank(const std::string& mesh, std::uint64_t number = 0) {
    return launcher->mesh(mesh)[number];
  }

  const HostAddr& host() const { return *host_; }
  std::string endpoint() const { return host_->zmq_endpoint(); }
  const TempDir& dir() const { return dir_; }
  Loop& loop() { return loop_; }
  Reactor& reactor() { return loop_.reactor; }
  Process& keeper() { return keeper_.process; }
  host::HostAgent& agent() { return *agent_; }
  const Broker& broker() const { return *broker_; }
  void start_broker();
  void stop_broker() { broker_.reset(); }
  std::unique_ptr<TestLauncher> make_launcher(const std::string& name);

  std::unique_ptr<TestLauncher> launcher;
  int ups = 0;
  std::optional<bool> shut_down;
  bool keeper_lost = false;

 private:
  TempDir dir_;
  Loop loop_;
  KeeperProcess keeper_;
  std::optional<HostAddr> host_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<host::HostAgent> agent_;
};

ErrorCode code_of(const auto& result) {
  return result ? ErrorCode::none : result.error().code();
}

wire::GetStateT get_state(const std::string& mesh);

}  // namespace meshbus::test
