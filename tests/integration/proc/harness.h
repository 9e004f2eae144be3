#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "broker/broker.h"
#include "common/base/unique_fd.h"
#include "common/bus/bus.h"
#include "common/security/token.h"
#include "common/wire/protocol.h"
#include "meshbus/proc_mesh_ref.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/world/broker.h"
#include "tests/world/loop.h"

namespace meshbus::test {

/// A host for mesh procs with nothing in between: a real broker, an agent of the test's own, and a
/// launcher, all on the test's thread, which runs them inside of the wait functions here. Procs are
/// real processes with a bootstrap made by hand.
class ProcHarness {
 public:
  struct Options {
    std::uint64_t ranks = 1;
    std::chrono::milliseconds away{30'000};
    std::chrono::milliseconds heartbeat{5'000};
    std::vector<std::pair<std::string, std::string>> config = {};
    /// The procs get a token that is not theirs.
    bool wrong_token = false;
    /// What the bootstrap says that the host speaks.
    Protocol protocol = {};
  };
  explicit ProcHarness(Options options);
  ProcHarness() : ProcHarness(Options()) {}
  ~ProcHarness();

  /// Starts `meshbus_test_proc ARGUMENTS...` as that rank. `wrapper`: what to put in front; it and
  /// the program may close the descriptor
  /// (`closes_descriptors`), which stays open here.
  Process& start(std::uint64_t rank, std::vector<std::string> arguments,
                 std::vector<std::string> wrapper = {});
  /// The same for any command line.
  Process& start_command(std::uint64_t rank, std::vector<std::string> argv);
  /// Kills that rank, and starts it with another incarnation; it is ready when this returns.
  void restart(std::uint64_t rank, std::vector<std::string> arguments,
               std::vector<std::string> wrapper = {});
  Process& process(std::uint64_t rank) { return *processes_.at(rank); }

  /// Runs broker, agent and launcher until the predicate holds; throws at the deadline, with what
  /// the procs wrote.
  void wait(const std::string& what, const std::function<bool()>& predicate);
  void wait_ready(std::uint64_t rank);
  void wait_output(std::uint64_t rank, const std::string& text);
  ExitStatus wait_exit(std::uint64_t rank);

  /// The launcher calls that rank.
  Result<std::string> call(std::uint64_t rank, std::uint32_t port, const std::string& body);
  /// Asks without waiting; the answer goes to `answer`.
  void call_later(std::uint64_t rank, std::uint32_t port, const std::string& body,
                  std::function<void(Result<std::string>)> answer);
  void send(std::uint64_t rank, std::uint32_t port, const std::string& body);
  /// The agent asks that rank to stop, or orders it to exit.
  Result<void> stop(std::uint64_t rank, int code, std::chrono::milliseconds grace,
                    const std::string& reason = "a test");
  void order_exit(std::uint64_t rank, int code);
  /// The launcher asks that rank for something, and gets what is no refusal, or an error.
  template <typename NativeBody>
  Result<void> ask(std::uint64_t rank, NativeBody body) {
    std::optional<Result<ControlMessage>> answer;
    launcher_->request(Destination::to(*mesh_->proc_at(rank)), std::move(body),
                       std::chrono::seconds(10),
                       [&](Result<ControlMessage> result) { answer = std::move(result); });
    wait("an answer to a request of the launcher's", [&] { return answer.has_value(); });
    if (!*answer) return fail(answer->error());
    return {};
  }

  void stop_agent() { agent_.reset(); }
  void start_agent();
  void stop_broker();
  void start_broker();

  const Broker& broker() const { return *broker_; }
  const ProcMeshRef& mesh() const { return *mesh_; }
  std::string launcher() const { return launcher_->self()->to_string(); }
  /// What the agent has heard from each rank, by name.
  std::map<std::string, int> readies, heartbeats;
  /// What came to the launcher's port, by sender's key.
  std::vector<std::string> messages;
  /// What the launcher has sent and did not bring to its receiver, or may not have: "port N ERROR".
  std::vector<std::string> undelivered;
  Bus::Traffic launcher_traffic() const { return launcher_->traffic(); }

 private:
  std::string bootstrap_of(std::uint64_t rank);
  void start_launcher();

  Options options_;
  TempDir dir_;
  Loop loop_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<Bus> agent_;
  std::unique_ptr<Bus> launcher_;
  std::optional<ProcMeshRef> mesh_;
  std::map<std::uint64_t, UniqueFd> bootstraps_;
  std::map<std::uint64_t, std::uint64_t> restarts_;
  std::map<std::uint64_t, std::unique_ptr<Process>> processes_;
};

}  // namespace meshbus::test
